"""Which version of the walks runs on this machine."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import torch

from sgc_kernels.compiled.machine_code import kept_code
from sgc_kernels.compiled.target import Format, Target, host_target
from sgc_kernels.masks import reference
from sgc_kernels.masks.compiled import CompiledMasks
from sgc_kernels.masks.trie_table import (
    Bools,
    Int32,
    RunScan,
    Takes,
    Transitions,
    TrieTable,
    takes_nothing,
)

MINUS_INFINITY = {torch.float32: 0xFF800000, torch.bfloat16: 0xFF80, torch.float16: 0xFC00}
_NAMES = ("walk", "run", "scan", *(f"apply_{str(dtype)[6:]}" for dtype in MINUS_INFINITY))


class Walks(Protocol):
    """What token masks are made with; the module `reference` says what each function does."""

    def walk(
        self,
        trie: TrieTable,
        transitions: Transitions,
        spans: Int32,
        words: Int32,
        takes: Takes = takes_nothing,
    ) -> None: ...

    def run(
        self,
        trie: TrieTable,
        table: Int32,
        spans: Int32,
        counts: tuple[int, int],
        starts: Bools,
        going_on: bool,
        words: Int32,
    ) -> tuple[Int32, Int32]: ...

    def scan(
        self, trie: TrieTable, table: Int32, span: tuple[int, int], going_on: bool
    ) -> RunScan: ...


def select_walks() -> Walks:
    """The compiled walks, else NumPy's."""
    return compiled_masks() or reference


@functools.cache
def compiled_masks() -> CompiledMasks | None:
    """The compiled kernels; None on CPUs for which they are not offered.

    The first use on a machine compiles them (a second); the code is kept in the cache directory.
    """
    target = host_target()
    if not target.knows(Format.FLOAT32):
        return None
    source = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    digest = hashlib.sha256(source).digest()
    return CompiledMasks(kept_code("masks", _NAMES, target, lambda: _build(target), digest))


def _build(target: Target) -> dict[str, bytes]:
    from sgc_kernels.compiled.object_code import object_code
    from sgc_kernels.masks.code import make_apply, run, scan, walk

    sources: dict[str, Callable[[int], None]] = {"walk": walk, "run": run, "scan": scan}
    for dtype, bits in MINUS_INFINITY.items():
        sources[f"apply_{str(dtype)[6:]}"] = make_apply(dtype.itemsize, bits)
    return {name: object_code(name, sources[name], target) for name in _NAMES}
