"""A draw by top-p and min-p without thresholds: draw from the whole row until a token is kept.

Whether a token is one of those kept is known from the token and the chunks' summaries, mostly; it
does not matter how many are kept. What is taken is distributed as those kept are.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.row import Cuts, Noise, Row
from sgc_kernels.gpu.sampling.tile import noise_key, weights_below
from sgc_kernels.gpu.sampling.two_steps import draw_in_two_steps, load_summary
from sgc_kernels.gpu.sampling.whole_row import BLOCK, load_chunks, num_chunks

ROUND = tl.constexpr(2**48)  # above those of the step and of the caller's draws after the first
_ROUNDS = tl.constexpr(16)


@triton.jit
def mass_in_chunks(row: Row, least: tl.tensor, floor: tl.tensor, VOCAB: tl.constexpr) -> tl.tensor:
    """Sum of the weights of all chunks whose largest one is `floor` or more, and its logit above
    `least`."""
    _, most, total = load_summary(row, VOCAB)
    below = weights_below(most, row.top, row.scale)
    return tl.sum(tl.where((most > least) & (below >= floor), total * below, 0.0), 0)


@triton.jit
def has_less_above(
    row: Row, x: tl.tensor, target: tl.tensor, VOCAB: tl.constexpr, WORDS: tl.constexpr
) -> tl.tensor:
    """Whether the tokens with a larger logit than `x` have less than `target` in sum.

    The sums of the chunks in which some have are too much by those below; chunks are read to take
    these off, until it is little enough or those above are too much.
    """
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    at_most, at_least = mass_in_chunks(row, x, 0.0, VOCAB), 0.0
    first = 0
    while (at_most >= target) & (at_least < target) & (first < CHUNKS):
        chunk = first + tl.arange(0, BLOCK)
        most = tl.load(row.chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        read, _ = load_chunks(row, chunk, most > x, VOCAB, WORDS, BLOCK)
        weights = tl.exp2((read - row.top) * row.scale)
        over = tl.sum(tl.where(read > x, weights, 0.0))
        at_most -= tl.sum(weights) - over
        at_least += over
        first += BLOCK
    return at_most < target


@triton.jit
def draw_by_rejection(
    row: Row,
    noise: Noise,
    cuts: Cuts,
    target: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """A token of those with a weight of `min_p` or more and less than `target` in sum above them,
    -1 where none was found; and the step whose noise comes next."""
    token = tl.full([], -1, tl.int32)
    turn, step, floor = tl.full([], 0, tl.int32), noise.step, cuts.min_p
    refused = -1.0  # the largest weight that has more above it than may be
    while (token < 0) & (turn < _ROUNDS):
        drawn = draw_in_two_steps(row, floor, noise_key(noise.seed, step), VOCAB, WORDS)
        x = tl.load(row.start + drawn).to(tl.float32)
        weight = tl.exp2((x - row.top) * row.scale)
        if (weight >= cuts.min_p) & (weight > refused):
            if has_less_above(row, x, target, VOCAB, WORDS):
                token = drawn
            else:
                refused, floor = weight, tl.maximum(floor, weight)
        step += ROUND
        turn += 1
    return token, step
