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
from sgc_kernels.gpu.attention import plan_jobs as jobs
from sgc_kernels.gpu.attention.items import ITEM, PLACE
from sgc_kernels.gpu.attention.plan_rules import Rules, Sizes, Totals

Ints = npt.NDArray[np.int32]
_NAMES = ("share", "spans", "cut", "fill")
_SOURCES = ("plan_code.py", "share_code.py", "plan_jobs.py", "plan_rules.py", "items.py")
_Call = ctypes.PYFUNCTYPE(None, ctypes.c_int64)  # some microseconds: the interpreter's lock is kept
_ShareJob, _PlanJob = ctypes.c_int64 * jobs.SHARE_WORDS, ctypes.c_int64 * jobs.PLAN_WORDS
# Words of a job, whose byte offsets `plan_jobs` names.
_NUM_SPANS, _TOTALS = jobs.NUM_SPANS // 8, slice(jobs.NUM_WIDE // 8, jobs.WIDE_SIZE // 8)
_SIZES = slice(jobs.WIDE_SIZE // 8, jobs.PIECES // 8)
_ITEMS, _PLACED = slice(jobs.WIDE_ITEMS // 8, jobs.ORDER // 8), slice(jobs.WIDE_ITEMS // 8, None)


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
        scratch = self._own.scratch(jobs.SHARE_SCRATCH * count + 8)
        arrays = (_address(mirror), mirror.shape[1], _address(rows), _address(lens), count)
        job = _ShareJob(*arrays, _address(lcp), _address(order), scratch)
        self._share(ctypes.addressof(job))
        return lcp, order

    def spans(self, rules: Rules, lcp: Ints, lens: Ints, most: int) -> tuple[Ints, Totals]:
        """As `plan_reference.spans`."""
        lcp, lens = np.ascontiguousarray(lcp, np.int32), np.ascontiguousarray(lens, np.int32)
        count = len(lens)
        found = np.empty((2 * count, 6), np.int32)
        scratch = self._own.scratch(jobs.STACK_SCRATCH * count + 8)
        job = _PlanJob(
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
        return found[: job[_NUM_SPANS]], Totals(*job[_TOTALS])

    def items(
        self, rules: Rules, found: Ints, sizes: Sizes, order: Ints, room: int
    ) -> tuple[tuple[Ints, Ints, Ints], Ints, Ints]:
        """As `plan_reference.items`."""
        found, order = np.ascontiguousarray(found, np.int32), np.ascontiguousarray(order, np.int32)
        count = len(order)
        places, ends = np.zeros((count, PLACE), np.int32), np.empty(count, np.int32)
        job = _PlanJob()
        job[jobs.NUM_ROWS // 8], job[jobs.ROOM // 8] = count, room
        job[jobs.FEW_ROWS // 8], job[jobs.OWN_ROWS // 8] = rules.few_rows, rules.own_rows
        job[jobs.SPANS // 8], job[_NUM_SPANS] = _address(found), len(found)
        job[_SIZES] = [sizes.wide, sizes.narrow, sizes.step, rules.max_partials, *rules.most(count)]
        job[jobs.PIECES // 8] = self._own.scratch(jobs.PIECES_SCRATCH * len(found))
        self._cut(ctypes.addressof(job))
        wide, few, own = (np.zeros((some, ITEM), np.int32) for some in job[_ITEMS])
        job[_PLACED] = [_address(some) for some in (wide, few, own, order, places, ends)]
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
    source = b"".join((here / name).read_bytes() for name in _SOURCES)
    digest = hashlib.sha256(source).digest()
    return CompiledPlans(kept_code("plans", _NAMES, target, lambda: _build(target), digest))


def _build(target: Target) -> dict[str, bytes]:
    from sgc_kernels.compiled.object_code import object_code
    from sgc_kernels.gpu.attention.plan_code import cut, fill, spans
    from sgc_kernels.gpu.attention.share_code import share

    sources = {"share": share, "spans": spans, "cut": cut, "fill": fill}
    return {name: object_code(name, sources[name], target) for name in _NAMES}
