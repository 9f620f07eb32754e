"""Sums of exponentials by parts of a row: the parts' largest logits, and the sums below these."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.tile import LOG2_E, weights_below


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
