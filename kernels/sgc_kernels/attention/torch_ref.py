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
        if len(blocks) == 1 and blocks[0].rows is None:
            return blocks[0].attend(q, k_cache, v_cache)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        for block in blocks:
            rows = block.rows
            if isinstance(rows, slice):
                out[rows] = block.attend(q[rows], k_cache, v_cache)
            elif rows is not None:
                out.index_copy_(0, rows, block.attend(q.index_select(0, rows), k_cache, v_cache))
        return out


@dataclass(frozen=True, slots=True)
class _Block:
    """Sequences that are computed in one call: `size` of them, `n` queries and `m` keys each."""

    shape: AttentionShape
    rows: torch.Tensor | slice | None  # rows of q, or None: all of them in order
    size: int
    n: int
    m: int
    slots: torch.Tensor  # [size * m] int64
    mask: torch.Tensor | None  # added to the scores, [size | 1, 1, queries, m]
    folded: bool  # query heads laid beside the queries

    def attend(self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor) -> torch.Tensor:
        """`q` holds this block's rows only, `[size * n, num_heads, head_dim]`."""
        s = self.shape
        keys = k_cache.index_select(0, self.slots).view(self.size, self.m, s.num_kv_heads, -1)
        values = v_cache.index_select(0, self.slots).view(self.size, self.m, s.num_kv_heads, -1)
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
    context = meta.kv_indptr.long().diff()
    # Keys that no query of the sequence can see through the window are left out.
    num_keys = context if window is None else torch.minimum(context, window - 1 + num_queries)
    few = (num_queries > 0) & (num_queries <= _MANY_QUERIES)
    for members in _groups(few.nonzero().flatten(), num_queries, num_keys):
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


def _group_block(
    meta: AttentionMeta,
    shape: AttentionShape,
    members: torch.Tensor,
    num_keys: torch.Tensor,
    window: int | None,
) -> _Block:
    qo, device = meta.qo_indptr.long(), meta.kv_slots.device
    n, m = int(qo[members[0] + 1] - qo[members[0]]), int(num_keys.max())
    ends = meta.kv_indptr.long()[members + 1]
    # Padding repeats the last slot of its own sequence: whatever lies elsewhere is never read.
    places = (ends - num_keys)[:, None] + torch.arange(m).clamp(max=num_keys[:, None] - 1)
    rows = qo[members][:, None] + torch.arange(n)
    everything = rows.numel() == int(qo[-1])
    mask = None
    if n > 1 or int(num_keys.min()) < m:
        mask = _mask(n, m, num_keys[:, None, None], window, shape.dtype)[:, None]
        mask = mask.repeat(1, 1, shape.num_heads // shape.num_kv_heads, 1).to(device)
    return _Block(
        shape=shape,
        rows=None if everything else rows.flatten().to(device),
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
    end, n, device = int(meta.kv_indptr[b + 1]), last - first, meta.kv_slots.device
    plain = n == num_keys and (window is None or window >= n)
    mask = None if plain else _mask(n, num_keys, torch.tensor(num_keys), window, shape.dtype)
    return _Block(
        shape=shape,
        rows=slice(first, last) if n < int(meta.qo_indptr[-1]) else None,
        size=1,
        n=n,
        m=num_keys,
        slots=meta.kv_slots[end - num_keys : end],
        mask=None if mask is None else mask[None, None].to(device),
        folded=False,
    )


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
