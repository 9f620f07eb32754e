"""Attention over paged keys and values in plain torch: the reference, and the version for CPUs.

Sequences with few queries (decode, short extends) are computed together: those with equally many
queries and similar context lengths form a group, whose keys are gathered into one padded block.
The query heads that share a key head are laid beside the queries, so that keys and values are
never repeated. Sequences with many queries are computed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape

_MANY_QUERIES = 16  # from here on folding heads into the queries gains nothing (measured on a CPU)
_MAX_PADDING = 0.25  # share of a group's gathered keys that may be padding
_FREE_PADDING = 32  # tokens by which contexts of a group may always differ
# Keys gathered at a time; more fall out of the CPU's cache before they are used (at 32 rows of
# 1,000 tokens a third of the time).
_BLOCK_BYTES = 4 << 20


class TorchAttention:
    """The backend; holds no state."""

    name = "torch"

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        return _TorchPlan(meta, shape)


class _TorchPlan:
    def __init__(self, meta: AttentionMeta, shape: AttentionShape) -> None:
        assert shape.num_heads % shape.num_kv_heads == 0, "query heads must divide by key heads"
        self._meta = meta
        self._shape = shape
        self._blocks: dict[int | None, list[_Block]] = {}
        self._room: tuple[torch.Tensor, torch.Tensor] | None = None

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        if window not in self._blocks:
            self._blocks[window] = list(_blocks(self._meta, self._shape, window))
        blocks = self._blocks[window]
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for block in blocks:
            keys, values = self._gather(block, k_cache, v_cache)
            rows = block.rows
            if isinstance(rows, slice):
                out[rows] = block.attend(q[rows], keys, values)
            else:
                out.index_copy_(0, rows, block.attend(q.index_select(0, rows), keys, values))
        return out

    def _gather(
        self, block: _Block, k_cache: torch.Tensor, v_cache: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The block's keys and values, in memory that all blocks and layers of the step reuse.

        Those that are kept in 8 bits come in the format of the queries.
        """
        count = block.slots.numel()
        if self._room is None or self._room[0].shape[0] < count:
            most = max(b.slots.numel() for blocks in self._blocks.values() for b in blocks)
            shape = (most, *k_cache.shape[1:])
            self._room = (k_cache.new_empty(shape), v_cache.new_empty(shape))
        keys, values = self._room[0][:count], self._room[1][:count]
        torch.index_select(_numbers(k_cache), 0, block.slots, out=_numbers(keys))
        torch.index_select(_numbers(v_cache), 0, block.slots, out=_numbers(values))
        return keys.to(self._shape.dtype), values.to(self._shape.dtype)


def _numbers(cache: torch.Tensor) -> torch.Tensor:
    """`cache`, as something that torch can index."""
    return cache.view(torch.uint8) if cache.dtype.itemsize == 1 else cache


@dataclass(frozen=True, slots=True)
class _Block:
    """Sequences that are computed in one call: `size` of them, `n` queries and `m` keys each."""

    shape: AttentionShape
    rows: torch.Tensor | slice  # rows of q
    size: int
    n: int
    m: int
    slots: torch.Tensor  # [size * m] int64
    mask: torch.Tensor | None  # added to the scores, [size | 1, 1, queries, m]
    folded: bool  # query heads laid beside the queries

    def attend(self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """All arguments hold this block's rows and slots only."""
        s = self.shape
        keys = keys.view(self.size, self.m, s.num_kv_heads, s.head_dim)
        values = values.view(self.size, self.m, s.num_kv_heads, s.head_dim)
        queries = q.reshape(self.size, self.n, s.num_heads, s.head_dim).transpose(1, 2)
        if self.folded:
            queries = queries.reshape(self.size, s.num_kv_heads, -1, s.head_dim)
        causal = self.mask is None and self.n > 1
        out = scaled_dot_product_attention(
            queries,
            keys.transpose(1, 2),
            values.transpose(1, 2),
            attn_mask=self.mask,
            is_causal=causal,
            scale=s.scale,
            enable_gqa=not self.folded and s.num_heads != s.num_kv_heads,
        )
        out = out.reshape(self.size, s.num_heads, self.n, s.head_dim).transpose(1, 2)
        return out.reshape(-1, s.num_heads, s.head_dim)


def _blocks(meta: AttentionMeta, shape: AttentionShape, window: int | None) -> Iterator[_Block]:
    num_queries = meta.qo_indptr.long().diff()
    context = meta.ends.long() - meta.kv_indptr[:-1].long()
    # Keys that no query of the sequence can see through the window are left out.
    num_keys = context if window is None else torch.minimum(context, window - 1 + num_queries)
    few = (num_queries > 0) & (num_queries <= _MANY_QUERIES)
    for group in _groups(few.nonzero().flatten(), num_queries, num_keys):
        for members in torch.split(group, _sequences_at_once(shape, int(num_keys[group].max()))):
            yield _group_block(meta, shape, members, num_keys[members], window)
    for b in (num_queries > _MANY_QUERIES).nonzero().flatten().tolist():
        yield _long_block(meta, shape, b, int(num_keys[b]), window)


def _groups(
    members: torch.Tensor, num_queries: torch.Tensor, num_keys: torch.Tensor
) -> Iterator[torch.Tensor]:
    """Cut `members` (sequence numbers, ascending) into groups that waste little on padding."""
    for n in sorted(set(num_queries[members].tolist())):
        same = members[num_queries[members] == n]
        if _fits_together(num_keys[same]):
            yield same  # in batch order: decode batches then need no reordering
            continue
        same = same[num_keys[same].argsort(descending=True, stable=True)]
        lengths = num_keys[same].tolist()
        first, total = 0, 0
        for i, length in enumerate(lengths):
            longest, count = lengths[first], i + 1 - first
            padding = longest * count - (total + length)
            free = longest - length <= _FREE_PADDING
            if not free and padding > _MAX_PADDING * longest * count:
                yield same[first:i].sort().values
                first, total = i, 0
            total += length
        yield same[first:].sort().values


def _fits_together(num_keys: torch.Tensor) -> bool:
    longest, count = int(num_keys.max()), num_keys.numel()
    if longest - int(num_keys.min()) <= _FREE_PADDING:
        return True
    return longest * count - int(num_keys.sum()) <= _MAX_PADDING * longest * count


def _sequences_at_once(shape: AttentionShape, longest: int) -> int:
    token_bytes = shape.num_kv_heads * shape.head_dim * shape.dtype.itemsize
    return max(1, _BLOCK_BYTES // (token_bytes * longest))


def _group_block(
    meta: AttentionMeta,
    shape: AttentionShape,
    members: torch.Tensor,
    num_keys: torch.Tensor,
    window: int | None,
) -> _Block:
    qo, device = meta.qo_indptr.long(), meta.kv_slots.device
    n, m = int(qo[members[0] + 1] - qo[members[0]]), int(num_keys.max())
    ends = meta.ends.long()[members]
    # Padding repeats the last slot of its own sequence: whatever lies elsewhere is never read.
    places = (ends - num_keys)[:, None] + torch.arange(m).clamp(max=num_keys[:, None] - 1)
    rows = (qo[members][:, None] + torch.arange(n)).flatten()
    mask = None
    if n > 1 or int(num_keys.min()) < m:
        mask = _mask(n, m, num_keys[:, None, None], window, shape.dtype)[:, None]
        mask = mask.repeat(1, 1, shape.num_heads // shape.num_kv_heads, 1).to(device)
    return _Block(
        shape=shape,
        rows=_as_slice(rows) or rows.to(device),
        size=members.numel(),
        n=n,
        m=m,
        slots=meta.kv_slots[places.flatten().to(device)],
        mask=mask,
        folded=True,
    )


def _long_block(
    meta: AttentionMeta, shape: AttentionShape, b: int, num_keys: int, window: int | None
) -> _Block:
    first, last = int(meta.qo_indptr[b]), int(meta.qo_indptr[b + 1])
    end, n, device = int(meta.ends[b]), last - first, meta.kv_slots.device
    plain = n == num_keys and (window is None or window >= n)
    mask = None if plain else _mask(n, num_keys, torch.tensor(num_keys), window, shape.dtype)
    return _Block(
        shape=shape,
        rows=slice(first, last),
        size=1,
        n=n,
        m=num_keys,
        slots=meta.kv_slots[end - num_keys : end],
        mask=None if mask is None else mask[None, None].to(device),
        folded=False,
    )


def _as_slice(rows: torch.Tensor) -> slice | None:
    """`rows` (ascending) as a slice, if there are no gaps."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == rows.numel() else None


def _mask(
    n: int, m: int, num_keys: torch.Tensor, window: int | None, dtype: torch.dtype
) -> torch.Tensor:
    """0 where query i may see key j, else -inf; `[*num_keys' leading axes, n, m]`."""
    keys = torch.arange(m)
    places = num_keys - n + torch.arange(n)[:, None]
    hidden = keys > places
    if window is not None:
        hidden = hidden | (keys <= places - window)
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
