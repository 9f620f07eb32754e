"""Sums of exponentials by parts of a row: the parts' largest logits, and the sums below these."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.tile import LOG2_E, weights_below

_NEAR = tl.constexpr(50.0)  # exponentials so much smaller than the largest one have all their bits


@triton.jit
def put_sum(
    sums: tl.tensor, row: tl.tensor, part: tl.tensor, x: tl.tensor, PARTS: tl.constexpr
) -> None:
    """Store the largest of `x` and the sum of exponentials below it as those of a part."""
    top = tl.max(x)
    total = tl.sum(weights_below(x, top, LOG2_E))
    tl.store(sums + row * 2 * PARTS + part, top)
    tl.store(sums + (row * 2 + 1) * PARTS + part, total)


@triton.jit
def put_both(
    raw: tl.tensor,
    allowed: tl.tensor,
    row: tl.tensor,
    part: tl.tensor,
    x: tl.tensor,
    y: tl.tensor,
    PARTS: tl.constexpr,
) -> None:
    """`put_sum` of `x`, and of `y`, which is `x` with minus infinity in some places."""
    top, mine = tl.max(x), tl.max(y)
    weights = weights_below(x, top, LOG2_E)
    at = row * 2 * PARTS + part
    tl.store(raw + at, top)
    tl.store(raw + at + PARTS, tl.sum(weights))
    if mine > top - _NEAR:
        total = tl.sum(tl.where(y > float("-inf"), weights, 0.0))
        total *= tl.exp2((top - mine) * LOG2_E)
    else:
        total = tl.sum(weights_below(y, mine, LOG2_E))
    tl.store(allowed + at, mine)
    tl.store(allowed + at + PARTS, total)


@triton.jit
def log_sum(sums: tl.tensor, row: tl.tensor, PARTS: tl.constexpr) -> tl.tensor:
    """Log of the sum of a row's exponentials."""
    part = tl.arange(0, triton.next_power_of_2(PARTS))
    there = part < PARTS
    at = sums + row * 2 * PARTS + part
    top = tl.load(at, mask=there, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(at + PARTS, mask=there, other=0.0, cache_modifier=".cg")
    return log_of(top, total)


@triton.jit
def log_of(top: tl.tensor, total: tl.tensor) -> tl.tensor:
    """Log of the sum of exponentials, of which the largest exponents and the sums below are
    given."""
    most = tl.max(top, 0)
    return most + tl.log(tl.sum(total * weights_below(top, most, LOG2_E), 0))
