"""Attention over paged keys and values by compiled kernels, for CPUs.

Nothing is gathered: keys and values are read where they lie. Prefixes that sequences share are
found by comparing their slots, and are read once a step for all of them; the results of a token's
parts are put together by their log-sum-exp.
"""

from __future__ import annotations

import numpy as np
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.compiled import cut_block as at
from sgc_kernels.compiled import step as st
from sgc_kernels.compiled.machine_code import load_machine_code, parallel_call
from sgc_kernels.compiled.target import FORMATS, Target, host_target

_ALL = 1 << 40  # a window that hides nothing
_FEW = 16  # queries from which a sequence reads its context often enough by itself


def can_attend(dtype: torch.dtype, head_dim: int, group: int, target: Target | None = None) -> bool:
    """Whether the compiled kernels know these shapes and this CPU."""
    if dtype not in FORMATS or not (target or host_target()).knows(FORMATS[dtype]):
        return False
    return head_dim % 32 == 0 and head_dim <= 256 and group <= 32


class CompiledAttention:
    """The backend; keeps scratch memory between steps."""

    name = "compiled"

    def __init__(self, target: Target | None = None) -> None:
        self._target = target or host_target()
        self._scratch = torch.empty(0, dtype=torch.uint8)

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        return _CompiledPlan(meta, shape, self._target, self._room(shape))

    def _room(self, shape: AttentionShape) -> torch.Tensor:
        layout = st.Layout(self._target, FORMATS[shape.dtype], shape.head_dim, _group(shape))
        needed = torch.get_num_threads() * layout.scratch_bytes
        if self._scratch.numel() < needed:
            self._scratch = torch.empty(needed, dtype=torch.uint8)
        return self._scratch


class _CompiledPlan:
    def __init__(
        self, meta: AttentionMeta, shape: AttentionShape, target: Target, scratch: torch.Tensor
    ) -> None:
        self._code = load_machine_code(shape.dtype, shape.head_dim, _group(shape), target)
        self._parallel, self._threads = parallel_call(), torch.get_num_threads()
        if self._parallel is None:
            self._threads = 1
        self._kept: list[object] = [meta, scratch]
        self._step = np.zeros(st.STEP_WORDS, np.int64)
        self._address = self._step.ctypes.data
        self._cut(meta, shape)
        self._set(st.SCRATCH, scratch.data_ptr())
        self._set(st.STRIDE, shape.num_kv_heads * shape.head_dim * shape.dtype.itemsize)
        self._set(st.HEADS, shape.num_heads)
        self._set(st.KV_HEADS, shape.num_kv_heads)
        self._set(st.SLOTS, meta.kv_slots.data_ptr())
        self._step[st.SCALE // 8 : st.SCALE // 8 + 1].view(np.float32)[0] = shape.scale

    def _set(self, word: int, value: int) -> None:
        self._step[word // 8] = value

    def _cut(self, meta: AttentionMeta, shape: AttentionShape) -> None:
        """Parts and items of the step, see `sgc_kernels.compiled.cut`."""
        num_seqs, num_tokens = len(meta.qo_indptr) - 1, int(meta.qo_indptr[-1])
        block = np.zeros(at.CUT_WORDS, np.int64)
        sizes = (num_seqs, 4 * num_seqs + 4, 8 * num_seqs, num_tokens, num_tokens + 1, num_tokens)
        room = np.empty(sum(sizes), np.int64)
        places = room.ctypes.data + 8 * np.cumsum([0, *sizes[:-1]])
        names = (at.ORDER, at.STACK, at.PARTS, at.POSITIONS, at.FIRST_PARTIAL, at.CURSOR)
        for name, place in zip(names, places.tolist(), strict=True):
            block[name // 8] = place
        values = {
            at.NUM_SEQUENCES: num_seqs,
            at.QO: meta.qo_indptr.data_ptr(),
            at.KV: meta.kv_indptr.data_ptr(),
            at.SLOTS: meta.kv_slots.data_ptr(),
            at.KV_HEADS: shape.num_kv_heads,
            at.NUM_THREADS: self._threads,
            at.FEW: _FEW,
        }
        for name, value in values.items():
            block[name // 8] = value
        self._code.call["count"](block.ctypes.data)
        num_items, num_rows = int(block[at.NUM_ITEMS // 8]), int(block[at.NUM_ROWS // 8])
        items, rows = np.empty((num_items, st.ITEM), np.int64), np.empty(2 * num_rows, np.int64)
        block[at.ITEMS // 8], block[at.ROWS // 8] = items.ctypes.data, rows.ctypes.data
        self._code.call["fill"](block.ctypes.data)
        # Large items first, so that no thread is left alone with one at the end.
        items = items[np.argsort(-(items[:, 1] * items[:, 3]), kind="stable")]
        self._make_partials(int(block[at.NUM_PARTIALS // 8]), shape)
        self._kept += [room, items, rows]
        self._set(st.ITEMS, items.ctypes.data)
        self._set(st.ROWS, rows.ctypes.data)
        self._set(st.UNITS, num_items * shape.num_kv_heads)
        self._set(st.TOKENS, num_tokens)
        self._set(st.POSITIONS, int(block[at.POSITIONS // 8]))
        self._set(st.FIRST_PARTIAL, int(block[at.FIRST_PARTIAL // 8]))
        work = (items[:, 1] * items[:, 3]).sum() * shape.num_heads * shape.head_dim
        if work < _ALONE:
            self._threads = 1

    def _make_partials(self, count: int, shape: AttentionShape) -> None:
        self._merges = count > 0
        sums = torch.empty((count, shape.num_heads, shape.head_dim), dtype=torch.float32)
        states = torch.empty((count, shape.num_heads, 2), dtype=torch.float32)
        self._kept += [sums, states]
        self._set(st.PARTIAL_SUMS, sums.data_ptr())
        self._set(st.PARTIAL_STATE, states.data_ptr())

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
