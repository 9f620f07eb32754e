"""The CPU that kernels are compiled for, and the sizes of blocks that suit it."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from enum import Enum

import torch

_LOG = logging.getLogger("sgc")

KEYS = 64  # keys of a packed block


class Format(Enum):
    """A number format in memory; arithmetic is float32."""

    FLOAT32 = 4
    BFLOAT16 = 2
    FLOAT16 = -2

    @property
    def num_bytes(self) -> int:
        return abs(self.value)


FORMATS = {
    torch.float32: Format.FLOAT32,
    torch.bfloat16: Format.BFLOAT16,
    torch.float16: Format.FLOAT16,
}


@dataclass(frozen=True)
class Target:
    """A CPU as LLVM calls it, with the instruction sets that may be used."""

    cpu: str
    features: frozenset[str]

    @property
    def _wide(self) -> bool:
        return "avx512f" in self.features

    @property
    def tile_rows(self) -> int:
        return 6 if self._wide else 4

    @property
    def tile_columns(self) -> int:
        """Accumulators of a row of a tile, in vectors of 16 lanes: with `tile_rows` 24 of 32
        registers, or 8 of 16 half as wide."""
        return 4 if self._wide else 1

    def has_pairs(self, form: Format) -> bool:
        """Whether bfloat16 pairs are multiplied and added in one instruction."""
        return form is Format.BFLOAT16 and self._wide and "avx512bf16" in self.features

    def knows(self, form: Format) -> bool:
        """Whether the kernels are offered for this CPU. Others than x86-64 with AVX2 are left to
        torch: nothing was tested there."""
        needed = {"avx2", "fma"} | ({"f16c"} if form is Format.FLOAT16 else set())
        return needed <= self.features

    def without(self, start: str) -> Target:
        """This CPU without the instruction sets whose names begin so."""
        kept = (name for name in self.features if not name.startswith(start))
        return Target("x86-64", frozenset(kept))


@functools.cache
def host_target() -> Target:
    """The CPU of this process; one without instruction sets where llvmlite does not load."""
    try:
        import llvmlite.binding as llvm

        sets = llvm.get_host_cpu_features()
        return Target(llvm.get_host_cpu_name(), frozenset(k for k, has in sets.items() if has))
    except (ImportError, OSError, RuntimeError) as error:
        _LOG.warning("llvmlite does not load (%s): kernels run in torch, slower", error)
        return Target("unknown", frozenset())
