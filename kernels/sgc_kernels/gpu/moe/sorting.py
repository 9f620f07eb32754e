"""Pairs of tokens and experts in order of their expert: kernels of `route.py` for many tokens."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def list_blocks(
    table: tl.tensor,
    block: tl.tensor,
    max_blocks: tl.tensor,
    counts: tl.tensor,
    starts: tl.tensor,
    EXPERTS: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Entries `block` `[LISTED]` of the table, from pairs and first places by expert `[BLOCK]`."""
    expert = tl.arange(0, counts.shape[0])
    blocks = (counts + ROWS - 1) // ROWS
    ends = tl.cumsum(blocks, axis=0)
    number = tl.sum(tl.where(ends[None, :] <= block[:, None], 1, 0), axis=1)
    is_it = expert[None, :] == number[:, None]
    start = tl.sum(tl.where(is_it, starts[None, :], 0), axis=1)
    count = tl.sum(tl.where(is_it, counts[None, :], 0), axis=1)
    before = tl.sum(tl.where(is_it, (ends - blocks)[None, :], 0), axis=1)
    listed = block < max_blocks
    tl.store(table + block, tl.where(number < EXPERTS, number, -1), mask=listed)
    tl.store(table + max_blocks + block, start + (block - before) * ROWS, mask=listed)
    tl.store(table + 2 * max_blocks + block, start + count, mask=listed)


@triton.jit(do_not_specialize=["blocks"])
def sum_up(
    counts: tl.tensor,
    bases: tl.tensor,
    totals: tl.tensor,
    blocks: tl.tensor,
    BLOCK: tl.constexpr,
    CHUNK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """Counts of the token blocks `[blocks, BLOCK]` to first places; one program."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    expert = tl.arange(0, BLOCK)
    inner = tl.arange(0, CHUNK)
    total = tl.zeros([BLOCK], dtype=tl.int32)
    for first in range(0, blocks, CHUNK):
        inside = (first + inner < blocks)[:, None]
        at = (first + inner)[:, None] * BLOCK + expert[None, :]
        total += tl.sum(tl.load(counts + at, mask=inside, other=0), axis=0)
    tl.store(totals + expert, total)
    start = tl.cumsum(total, axis=0) - total
    for first in range(0, blocks, CHUNK):
        inside = (first + inner < blocks)[:, None]
        at = (first + inner)[:, None] * BLOCK + expert[None, :]
        count = tl.load(counts + at, mask=inside, other=0)
        tl.store(bases + at, tl.cumsum(count, axis=0) - count + start[None, :], mask=inside)
        start += tl.sum(count, axis=0)


@triton.jit(do_not_specialize=["tokens", "max_blocks"])
def place_pairs(
    experts: tl.tensor,
    ranks: tl.tensor,
    bases: tl.tensor,
    totals: tl.tensor,
    order: tl.tensor,
    table: tl.tensor,
    tokens: tl.tensor,
    max_blocks: tl.tensor,
    EXPERTS: tl.constexpr,
    BLOCK: tl.constexpr,
    TOP_K: tl.constexpr,
    PLACES: tl.constexpr,
    TOKENS: tl.constexpr,
    LISTED: tl.constexpr,
    ROWS: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """The order of a token block's pairs, and some entries of the table."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    number = tl.program_id(0)
    token = number * TOKENS + tl.arange(0, TOKENS)
    place = tl.arange(0, PLACES)[None, :]
    pair = token[:, None] * TOP_K + place
    is_pair = (token < tokens)[:, None] & (place < TOP_K)
    expert = tl.load(experts + pair, mask=is_pair, other=0)
    rank = tl.load(ranks + pair, mask=is_pair, other=0)
    base = tl.load(bases + number * BLOCK + expert, mask=is_pair, other=0)
    tl.store(order + base + rank, pair, mask=is_pair)
    if number * LISTED < max_blocks:
        counts = tl.load(totals + tl.arange(0, BLOCK))
        starts = tl.cumsum(counts, axis=0) - counts
        block = number * LISTED + tl.arange(0, LISTED)
        list_blocks(table, block, max_blocks, counts, starts, EXPERTS, ROWS)
