"""Adds up the partial results of each row by their log-sum-exp."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def merge_partials(
    partial: tl.tensor,  # [partials, heads, head_dim] float32, each normalised
    sums: tl.tensor,  # [partials, heads] float32: log2 of the sum of exponentials, or -inf
    places: tl.tensor,
    out: tl.tensor,  # [rows, heads, head_dim]
    OUT_STRIDE: tl.constexpr,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    SOME_HEADS: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    """Program (heads, place): SOME_HEADS heads of one row, AT_ONCE partials read together."""
    place = places + tl.program_id(1) * 4
    row = tl.load(place)
    base = tl.load(place + 1)
    count = tl.load(place + 2)
    if row < 0:
        return
    head = tl.program_id(0) * SOME_HEADS + tl.arange(0, SOME_HEADS)
    d = tl.arange(0, DIM_PAD)
    in_dim = d < DIM
    live = head < HEADS
    both = live[:, None] & in_dim[None, :]
    top = tl.full([SOME_HEADS], float("-inf"), tl.float32)
    total = tl.zeros([SOME_HEADS], tl.float32)
    result = tl.zeros([SOME_HEADS, DIM_PAD], tl.float32)
    for part in tl.range(0, count, AT_ONCE):
        for j in tl.static_range(AT_ONCE):
            there = part + j < count
            number = (base + part + j).to(tl.int64) * HEADS + head
            weight = tl.load(sums + number, mask=live & there, other=float("-inf"))
            values = tl.load(
                partial + (number * DIM)[:, None] + d[None, :], mask=both & there, other=0.0
            )
            new_top = tl.maximum(top, weight)
            level = tl.where(new_top == float("-inf"), 0.0, new_top)
            fade = tl.exp2(top - level)
            factor = tl.exp2(weight - level)
            total = total * fade + factor
            result = result * fade[:, None] + values * factor[:, None]
            top = new_top
    result = result / tl.where(total > 0.0, total, 1.0)[:, None]
    tl.store(out + row * OUT_STRIDE + (head * DIM)[:, None] + d[None, :], result, mask=both)
