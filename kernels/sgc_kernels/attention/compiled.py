"""Attention over paged keys and values by compiled kernels, for CPUs.

Nothing is gathered: keys and values are read where they lie. Prefixes that sequences share are
found by comparing their slots, and are read once a step for all of them; the results of a token's
parts are put together by their log-sum-exp.
"""

from __future__ import annotations

import threading

import numpy as np
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.compiled import cut_block as at
from sgc_kernels.compiled import step as st
from sgc_kernels.compiled.machine_code import load_machine_code
from sgc_kernels.compiled.target import FORMATS, Target, host_target
from sgc_kernels.openmp import parallel_call

Items = np.ndarray[tuple[int, int], np.dtype[np.int64]]

_ALL = 1 << 40  # a window that hides nothing
_FEW = 16  # queries from which a sequence reads its context often enough by itself


def can_attend(dtype: torch.dtype, head_dim: int, group: int, target: Target | None = None) -> bool:
    """Whether the compiled kernels know these shapes and this CPU."""
    if dtype not in FORMATS or not (target or host_target()).knows(FORMATS[dtype]):
        return False
    return head_dim % 32 == 0 and head_dim <= 256 and group <= 32


class CompiledAttention:
    """The backend; each thread that plans keeps its memory between steps, so a plan is void once
    the same thread makes the next one."""

    name = "compiled"

    def __init__(self, target: Target | None = None) -> None:
        self._target = target or host_target()
        self._rooms = _Rooms()

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        threads = torch.get_num_threads() if parallel_call() is not None else 1
        rooms = self._rooms.by_shape
        room = rooms.get((shape, threads))
        if room is None:
            room = rooms[shape, threads] = Room(shape, self._target, threads)
        return self._plan(meta, shape, room)

    def _plan(self, meta: AttentionMeta, shape: AttentionShape, room: Room) -> CompiledPlan:
        return CompiledPlan(meta, shape, room)


class _Numbers:
    """64-bit integers that kernels read and write; grows, and is never cleared."""

    def __init__(self) -> None:
        self._grow(1)

    def _grow(self, count: int) -> None:
        self.values = np.empty(count, np.int64)
        self.address = int(self.values.ctypes.data)

    def at_least(self, count: int) -> _Numbers:
        if len(self.values) < count:
            self._grow(2 * count)
        return self


class Room:
    """What the steps of one shape use one after the other."""

    def __init__(self, shape: AttentionShape, target: Target, threads: int) -> None:
        self.code = load_machine_code(shape.dtype, shape.head_dim, _group(shape), target)
        self.threads = threads
        self.layout = st.Layout(target, FORMATS[shape.dtype], shape.head_dim, _group(shape))
        self.scratch = torch.empty(threads * self.layout.scratch_bytes, dtype=torch.uint8)
        self.step = np.zeros(st.STEP_WORDS, np.int64)
        self.step_address = int(self.step.ctypes.data)
        stride = shape.num_kv_heads * shape.head_dim * shape.dtype.itemsize
        self.step[st.SCRATCH // 8] = self.scratch.data_ptr()
        self.step[st.STRIDE // 8] = stride
        self.step[st.HEADS // 8] = shape.num_heads
        self.step[st.KV_HEADS // 8] = shape.num_kv_heads
        self.step[st.SCALE // 8 : st.SCALE // 8 + 1].view(np.float32)[0] = shape.scale
        self.cut = np.zeros(at.CUT_WORDS, np.int64)
        self.cut_address = int(self.cut.ctypes.data)
        self.cut[at.KV_HEADS // 8] = shape.num_kv_heads
        self.cut[at.NUM_THREADS // 8] = threads
        self.cut[at.FEW // 8] = _FEW
        self.work, self.items, self.rows = _Numbers(), _Numbers(), _Numbers()
        self.partials = torch.empty(0, dtype=torch.float32)
        self.grows: object | None = None  # of the last step

    def partial_results(self, count: int) -> int:
        """Address of `count` float32."""
        if self.partials.numel() < count:
            self.partials = torch.empty(2 * count, dtype=torch.float32)
        return self.partials.data_ptr()


class _Rooms(threading.local):
    """Those of one thread, by shape and number of threads that compute."""

    def __init__(self) -> None:
        self.by_shape: dict[tuple[AttentionShape, int], Room] = {}


class CompiledPlan:
    """A step's parts and items, in the room of its thread."""

    def __init__(self, meta: AttentionMeta, shape: AttentionShape, room: Room) -> None:
        self._code, self._threads = room.code, room.threads
        self._parallel = parallel_call()
        self._kept = (meta, room)
        self._step, self._address = room.step, room.step_address
        self._cut(meta, shape, room)

    def _cut(self, meta: AttentionMeta, shape: AttentionShape, room: Room) -> None:
        """Parts and items of the step, see `sgc_kernels.compiled.cut`."""
        num_seqs, num_tokens = meta.qo_indptr.numel() - 1, int(meta.qo_indptr[-1])
        cut, step = room.cut, room.step
        place = room.work.at_least(13 * num_seqs + 3 * num_tokens + 5).address
        for name, words in (
            (at.ORDER, num_seqs),
            (at.STACK, 4 * num_seqs + 4),
            (at.PARTS, 8 * num_seqs),
            (at.POSITIONS, num_tokens),
            (at.FIRST_PARTIAL, num_tokens + 1),
            (at.CURSOR, num_tokens),
        ):
            cut[name // 8] = place
            place += 8 * words
        cut[at.NUM_SEQUENCES // 8] = num_seqs
        cut[at.QO // 8] = meta.qo_indptr.data_ptr()
        cut[at.KV // 8] = meta.kv_indptr.data_ptr()
        cut[at.KV_ENDS // 8] = meta.ends.data_ptr()
        cut[at.GROWS // 8] = int(meta.grows is not None and meta.grows is room.grows)
        room.grows = meta.grows
        cut[at.SLOTS // 8] = step[st.SLOTS // 8] = meta.kv_slots.data_ptr()
        self._code.call["count"](room.cut_address)
        num_items, num_rows = int(cut[at.NUM_ITEMS // 8]), int(cut[at.NUM_ROWS // 8])
        cut[at.ITEMS // 8] = room.items.at_least(num_items * st.ITEM).address
        cut[at.ROWS // 8] = step[st.ROWS // 8] = room.rows.at_least(2 * num_rows).address
        self._code.call["fill"](room.cut_address)
        step[st.ITEMS // 8] = room.items.address
        step[st.UNITS // 8] = num_items * shape.num_kv_heads
        step[st.TOKENS // 8] = num_tokens
        step[st.POSITIONS // 8] = cut[at.POSITIONS // 8]
        step[st.FIRST_PARTIAL // 8] = cut[at.FIRST_PARTIAL // 8]
        self._place_partials(int(cut[at.NUM_PARTIALS // 8]) * shape.num_heads, shape, room)
        self._order(room.items.values[: num_items * st.ITEM].reshape(-1, st.ITEM), shape)

    def _order(self, items: Items, shape: AttentionShape) -> None:
        """Large items first, so that no thread is left alone with one at the end."""
        work = items[:, 1] * items[:, 3]
        if int(work.sum()) * shape.num_heads * shape.head_dim < _ALONE:
            self._threads = 1
        elif len(items) > 1:
            items[:] = items[(-work).argsort(kind="stable")]

    def _place_partials(self, count: int, shape: AttentionShape, room: Room) -> None:
        """`count` results of one head each: sums, then a maximum and a sum of weights."""
        self._merges = count > 0
        sums = room.partial_results(count * (shape.head_dim + 2))
        room.step[st.PARTIAL_SUMS // 8] = sums
        room.step[st.PARTIAL_STATE // 8] = sums + 4 * count * shape.head_dim

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        q = q.contiguous()
        out = torch.empty_like(q)
        step = self._step
        step[:4] = (q.data_ptr(), k_cache.data_ptr(), v_cache.data_ptr(), out.data_ptr())
        step[st.WINDOW // 8] = _ALL if window is None else window
        self._all_threads("attend")
        if self._merges:
            self._all_threads("merge")
        return out

    def _all_threads(self, name: str) -> None:
        self._step[-2:] = 0  # the counters
        if self._threads == 1 or self._parallel is None:
            self._code.call[name](self._address)
        else:
            self._parallel(self._code.address[name], self._address, self._threads, 0)


# Multiplications below which a second thread costs more than it takes over.
_ALONE = 200_000


def _group(shape: AttentionShape) -> int:
    return shape.num_heads // shape.num_kv_heads
