"""Thresholds of filters, found by halving the interval of order keys in which they lie.

Bounds are 64 bits wide, since a sum or difference of two keys of 32 bits need not fit in 32.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.row import Row
from sgc_kernels.gpu.sampling.tile import order_key
from sgc_kernels.gpu.sampling.whole_row import above, num_chunks

_SMALLEST = tl.constexpr(-(2**31))
_LARGEST = tl.constexpr(2**31 - 1)


@triton.jit
def key_of_rank(keys: tl.tensor, rank: tl.tensor, low: tl.tensor) -> tl.tensor:
    """The largest key that `rank` or more of `keys` reach; `low` is one of those."""
    low, high = low.to(tl.int64), tl.max(keys).to(tl.int64) + 1
    while high - low > 1:
        middle = (low + (high - low) // 2).to(tl.int32)
        over = keys >= middle
        # Bounds move on to keys that exist, of which there are few between close bounds.
        if tl.sum(over.to(tl.int32)) >= rank:
            low = tl.min(tl.where(over, keys, _LARGEST)).to(tl.int64)
        else:
            high = tl.max(tl.where(over, _SMALLEST, keys)).to(tl.int64) + 1
    return low.to(tl.int32)


@triton.jit
def key_of_mass(
    keys: tl.tensor, weights: tl.tensor, target: tl.tensor, low: tl.tensor
) -> tl.tensor:
    """The smallest of `keys` from `low` on with less than `target` in sum above it; the largest
    key if there is none."""
    low, high = low.to(tl.int64) - 1, tl.max(keys).to(tl.int64)
    while high - low > 1:
        middle = (low + (high - low) // 2).to(tl.int32)
        over = keys > middle
        if tl.sum(tl.where(over, weights, 0.0)) < target:
            below = tl.max(tl.where(over, _SMALLEST, keys)).to(tl.int64)
            if below > low:
                high = below
            else:
                low = middle.to(tl.int64)
        else:
            low = tl.min(tl.where(over, keys, _LARGEST)).to(tl.int64) - 1
    return high.to(tl.int32)


@triton.jit
def rank_in_row(
    row: Row,
    rank: tl.tensor,
    low: tl.tensor,
    high: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """`key_of_rank` of all tokens of a row, of which fewer are above `high`; `low` if fewer reach
    that."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    if rank <= CHUNKS:  # as many tokens as chunks reach the chunks' own
        chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
        most = tl.load(row.chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        keys = order_key(most)
        low = tl.maximum(low, key_of_rank(keys, rank, tl.min(keys)))
    low, high = low.to(tl.int64), high.to(tl.int64) + 1
    while high - low > 1:
        middle = low + (high - low) // 2
        count, _ = above(row, (middle - 1).to(tl.int32), VOCAB, WORDS)
        if count >= rank:
            low = middle
        else:
            high = middle
    return low.to(tl.int32)


@triton.jit
def mass_in_row(
    row: Row, target: tl.tensor, low: tl.tensor, VOCAB: tl.constexpr, WORDS: tl.constexpr
) -> tl.tensor:
    """The smallest number from `low` on with less than `target` above it, as `key_of_mass`."""
    low, high = low.to(tl.int64) - 1, order_key(row.top).to(tl.int64)
    while high - low > 1:
        middle = low + (high - low) // 2
        _, mass = above(row, middle.to(tl.int32), VOCAB, WORDS)
        if mass < target:
            high = middle
        else:
            low = middle
    return high.to(tl.int32)
