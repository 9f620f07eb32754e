"""The compiled planner of decode attention under the signatures of its references."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from pathlib import Path
from threading import local
from typing import Any

import numpy as np
import numpy.typing as npt

from sgc_kernels.compiled.machine_code import MachineCode, kept_code
from sgc_kernels.compiled.target import Format, Target, host_target
from sgc_kernels.gpu.attention.items import ITEM, PLACE
from sgc_kernels.gpu.attention.plan_rules import Rules, Sizes, Totals

Ints = npt.NDArray[np.int32]
_NAMES = ("share", "spans", "cut", "fill")
_Call = ctypes.PYFUNCTYPE(None, ctypes.c_int64)  # some microseconds: the interpreter's lock is kept
_SHARE_WORDS, _SHARE_SCRATCH = 8, 11  # see `plan_code`
_PLAN_WORDS, _STACK_SCRATCH = 34, 8


class CompiledPlans:
    """`share`, `spans` and `items` in machine code; safe to call from several threads."""

    def __init__(self, code: MachineCode) -> None:
        self._code = code  # whose memory is gone with it
        self._share, self._spans, self._cut, self._fill = (_Call(code.address[n]) for n in _NAMES)
        self._own = _Own()

    def share(self, mirror: Ints, rows: Ints, lens: Ints) -> tuple[Ints, Ints]:
        """As `row_plans.share`."""
        rows, lens = np.ascontiguousarray(rows, np.int32), np.ascontiguousarray(lens, np.int32)
        count = len(rows)
        assert mirror.dtype == np.int32, "a table of int32"
        assert mirror.flags.c_contiguous, "rows lie behind each other"
        lcp, order = np.empty(count, np.int32), np.empty(count, np.int32)
        scratch = self._own.scratch(_SHARE_SCRATCH * count + 8)
        arrays = (_address(mirror), mirror.shape[1], _address(rows), _address(lens), count)
        job = (ctypes.c_int64 * _SHARE_WORDS)(*arrays, _address(lcp), _address(order), scratch)
        self._share(ctypes.addressof(job))
        return lcp, order

    def spans(self, rules: Rules, lcp: Ints, lens: Ints, most: int) -> tuple[Ints, Totals]:
        """As `plan_reference.spans`."""
        lcp, lens = np.ascontiguousarray(lcp, np.int32), np.ascontiguousarray(lens, np.int32)
        count = len(lens)
        found = np.empty((2 * count, 6), np.int32)
        scratch = self._own.scratch(_STACK_SCRATCH * count + 8)
        job = (ctypes.c_int64 * _PLAN_WORDS)(
            _address(lcp),
            _address(lens),
            count,
            0,
            rules.window or 0,
            most,
            rules.tuning.least_shared,
            rules.group,
            rules.few_rows,
            rules.own_rows,
            _address(found),
            scratch,
        )
        self._spans(ctypes.addressof(job))
        return found[: job[12]], Totals(*job[13:20])

    def items(
        self, rules: Rules, found: Ints, sizes: Sizes, order: Ints, room: int
    ) -> tuple[tuple[Ints, Ints, Ints], Ints, Ints]:
        """As `plan_reference.items`."""
        found, order = np.ascontiguousarray(found, np.int32), np.ascontiguousarray(order, np.int32)
        count = len(order)
        places, ends = np.zeros((count, PLACE), np.int32), np.empty(count, np.int32)
        job = (ctypes.c_int64 * _PLAN_WORDS)()
        job[2], job[3], job[8], job[9] = count, room, rules.few_rows, rules.own_rows
        job[10], job[12] = _address(found), len(found)
        job[20:27] = [sizes.wide, sizes.narrow, sizes.step, rules.max_partials, *rules.most(count)]
        job[27] = self._own.scratch(3 * len(found) + 8)
        self._cut(ctypes.addressof(job))
        wide, few, own = (np.zeros((some, ITEM), np.int32) for some in job[28:31])
        job[28:34] = [_address(some) for some in (wide, few, own, order, places, ends)]
        self._fill(ctypes.addressof(job))
        return (wide, few, own), places, ends


class _Own(local):
    """Memory that a thread works in; kept, because fresh memory costs as much as the work."""

    def __init__(self) -> None:
        self._words = np.empty(0, np.int64)

    def scratch(self, words: int) -> int:
        """The address of so many 64-bit integers."""
        if len(self._words) < words:
            self._words = np.empty(2 * words, np.int64)
        return _address(self._words)


def _address(array: npt.NDArray[Any]) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


@functools.cache
def compiled_plans() -> CompiledPlans | None:
    """The compiled planner; None on CPUs for which it is not offered.

    The first use on a machine compiles it (a second); the code is kept in the cache directory.
    """
    target = host_target()
    if not target.knows(Format.FLOAT32):
        return None
    here = Path(__file__).parent
    source = b"".join((here / name).read_bytes() for name in ("plan_code.py", "items.py"))
    digest = hashlib.sha256(source).digest()
    return CompiledPlans(kept_code("plans", _NAMES, target, lambda: _build(target), digest))


def _build(target: Target) -> dict[str, bytes]:
    from sgc_kernels.compiled.object_code import object_code
    from sgc_kernels.gpu.attention.plan_code import cut, fill, share, spans

    sources = {"share": share, "spans": spans, "cut": cut, "fill": fill}
    return {name: object_code(name, sources[name], target) for name in _NAMES}
