"""Attention on a CPU that does not depend on the batch, by the compiled kernels.

The kernel for many rows computes each line of a tile by itself, from the context's first key on in
blocks at fixed places; keys behind a token change no bit of it. So items here are tokens of one
sequence, over all that they see: no prefix is shared, no context is cut, and few tokens take the
same kernel, which is given one of them more than once. Through a window each token is an item of
its own, as blocks begin at the first key that an item sees.
"""

from __future__ import annotations

import numpy as np
import torch

from sgc_kernels.attention.compiled import CompiledAttention, CompiledPlan, Room
from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.compiled import step as st


class InvariantAttention(CompiledAttention):
    """The backend; otherwise as `CompiledAttention`."""

    name = "invariant"

    def _plan(self, meta: AttentionMeta, shape: AttentionShape, room: Room) -> CompiledPlan:
        return _InvariantPlan(meta, shape, room)


class _InvariantPlan(CompiledPlan):
    def _cut(self, meta: AttentionMeta, shape: AttentionShape, room: Room) -> None:
        self._meta, self._shape, self._room = meta, shape, room
        self._longest = int((meta.ends - meta.kv_indptr[:-1]).max()) if len(meta.ends) else 0
        self._merges = False
        room.grows = None
        self._fill(alone=False)

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        alone = window is not None and window < self._longest
        if alone != self._alone:
            self._fill(alone)
        return super().run(q, k_cache, v_cache, window)

    def _fill(self, alone: bool) -> None:
        """Items, rows and positions; with `alone`, of a token each."""
        self._alone = alone
        meta, layout, room = self._meta, self._room.layout, self._room
        qo, kv = (x.numpy().astype(np.int64) for x in (meta.qo_indptr, meta.kv_indptr))
        queries = np.diff(qo)
        positions = np.arange(qo[-1]) - np.repeat(qo[1:], queries)
        positions += np.repeat(meta.ends.numpy().astype(np.int64) - kv[:-1], queries)
        first = np.concatenate([*(_blocks(*ends, layout.max_tokens, alone) for ends in _pairs(qo))])
        last = np.append(first[1:], qo[-1])
        # One more than the kernel for few tokens takes.
        tokens = np.maximum(last - first, layout.few_tokens + 1)
        begin = np.cumsum(tokens) - tokens
        within = np.arange(int(tokens.sum())) - np.repeat(begin, tokens)
        rows = np.full((len(within), 2), -1, np.int64)
        rows[:, 0] = np.minimum(np.repeat(first, tokens) + within, np.repeat(last - 1, tokens))
        owner = np.searchsorted(qo, first, side="right") - 1
        items = np.zeros((len(first), st.ITEM), np.int64)
        items[:, 0], items[:, 1], items[:, 2] = begin, tokens, kv[owner]
        items[:, 3] = positions[last - 1] + 1
        self._order(items, self._shape)
        self._tables = items, rows, np.ascontiguousarray(positions), meta.kv_slots
        step = room.step
        for name, table in ((st.ITEMS, items), (st.ROWS, rows), (st.POSITIONS, self._tables[2])):
            step[name // 8] = table.ctypes.data
        step[st.SLOTS // 8] = meta.kv_slots.data_ptr()
        step[st.UNITS // 8] = len(items) * self._shape.num_kv_heads
        step[st.TOKENS // 8] = len(positions)


def _pairs(qo: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    return list(zip(qo[:-1].tolist(), qo[1:].tolist(), strict=True))


def _blocks(
    first: int, last: int, size: int, alone: bool
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(first, last, 1 if alone else size, dtype=np.int64)
