"""Sums of exponentials by parts of a row: the parts' largest logits, and the sums below these."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.tile import (
    LOG2_E,
    load_logits,
    load_words,
    only_allowed,
    part_words,
    weights_below,
)

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
def load_part(
    start: tl.tensor,
    mask: tl.tensor,
    bound: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    row: tl.tensor,
    part: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    STATS: tl.constexpr,
) -> tl.tensor:
    """A part's allowed logits; with STATS its sums are stored, of these and of all."""
    word = part_words(part)
    words = load_words(mask, bound, word, WORDS)
    x = load_logits(start, word, word >= 0 if STATS else words != 0, VOCAB)
    if WORDS > 0:
        y = only_allowed(x, words)
        if STATS:
            if bound:
                put_both(raw, allowed, row, part, x, y, PARTS)
            else:
                put_sum(raw, row, part, x, PARTS)
        x = y
    elif STATS:
        put_sum(raw, row, part, x, PARTS)
    return x


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
    at = sums + row * 2 * PARTS + part
    top = tl.load(at, mask=part < PARTS, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(at + PARTS, mask=part < PARTS, other=0.0, cache_modifier=".cg")
    most = tl.max(top, 0)
    return most + tl.log(tl.sum(total * weights_below(top, most, LOG2_E), 0))


@triton.jit
def store_stats(
    x: tl.tensor,
    row: tl.tensor,
    bound: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    PARTS: tl.constexpr,
) -> None:
    """Store the log-probability of a row's token, whose logit is `x`, and the log of that of all
    allowed ones."""
    whole = log_sum(raw, row, PARTS)
    share = 0.0
    if bound:
        share = tl.minimum(log_sum(allowed, row, PARTS) - whole, 0.0)
    tl.store(logprobs + row, x - whole)
    tl.store(shares + row, share)
