"""A draw from what top-k, top-p and min-p leave over of a row.

Without top-k, tokens are drawn until one is kept (`rejection.py`). Else, and where few would be
kept, the tokens of the chunks with the largest maxima are held at once: whatever is larger than the
maxima of all other chunks is among them, so a threshold that lies above these is exact.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.few import FEW, NOT_FEW, draw_from_few
from sgc_kernels.gpu.sampling.rejection import draw_by_rejection, mass_in_chunks
from sgc_kernels.gpu.sampling.row import Cuts, Excluded, Noise, Row
from sgc_kernels.gpu.sampling.search import key_of_mass, key_of_rank, mass_in_row, rank_in_row
from sgc_kernels.gpu.sampling.tile import noise_key, of_key, order_key
from sgc_kernels.gpu.sampling.whole_row import (
    BLOCK,
    above,
    best_of,
    draw_from_all,
    excluded_from,
    load_chunks,
    num_chunks,
)

_RARE = tl.constexpr(0.25)  # a smaller share of what is drawn from would take too many rounds


@triton.jit
def keep_chunks(
    chunk_max: tl.tensor, kept: tl.tensor, VOCAB: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The BLOCK chunks with the largest maxima, and the order keys of the smallest one of these
    and of the largest other one."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    chunk = tl.arange(0, max(BLOCK, triton.next_power_of_2(CHUNKS)))
    keys = order_key(tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf")))
    limit = key_of_rank(keys, BLOCK, tl.min(keys))
    over = keys > limit
    room = BLOCK - tl.sum(over.to(tl.int32), 0)
    equal = keys == limit
    taken = over | (equal & (tl.cumsum(equal.to(tl.int32), 0) <= room))
    tl.store(kept + tl.cumsum(taken.to(tl.int32), 0) - 1, chunk, mask=taken)
    nothing = order_key(tl.full([], float("-inf"), tl.float32))
    rest = tl.maximum(tl.max(tl.where(taken, nothing, keys), 0), nothing)
    tl.debug_barrier()  # what was stored by other threads is loaded next
    return tl.load(kept + tl.arange(0, BLOCK)), limit, rest


@triton.jit
def top_k_of(
    row: Row,
    keys: tl.tensor,
    weights: tl.tensor,
    top_k: tl.tensor,
    held: tl.tensor,
    limit: tl.tensor,
    least: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The order key of the last of the `top_k` likeliest tokens, and the sum of their weights.

    Args:
        held: whether so many of `keys` reach `limit`, which all others are below or equal.
    """
    if held:
        last = key_of_rank(keys, top_k, limit)
        over = keys > last
        count = tl.sum(over.to(tl.int32))
        mass = tl.sum(tl.where(over, weights, 0.0))
    else:
        last = rank_in_row(row, top_k, least, limit, VOCAB, WORDS)
        count, mass = above(row, last, VOCAB, WORDS)
    # Of tokens as likely as the last one, so many as are needed count; none where all are kept.
    weight = tl.where(last > least, tl.exp2((of_key(last) - row.top) * row.scale), 0.0)
    return tl.maximum(last, least), mass + (top_k - count).to(tl.float32) * weight


@triton.jit
def draw_from_tile(
    row: Row,
    x: tl.tensor,
    column: tl.tensor,
    keys: tl.tensor,
    limit: tl.tensor,
    rest: tl.tensor,
    whole: tl.tensor,
    ranked: tl.tensor,
    held: tl.tensor,
    key: tl.tensor,
    cuts: Cuts,
    excluded: Excluded,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """A token of those kept, however many these are; `rest` is the largest key not in `keys`.

    Args:
        ranked, held: whether there is a top-k, and its tokens are known to be among `keys`.
    """
    weights = tl.exp2((x - row.top) * row.scale)
    least = order_key(tl.full([], float("-inf"), tl.float32)) + 1
    mass = whole
    if ranked:
        least, mass = top_k_of(row, keys, weights, cuts.top_k, held, limit, least, VOCAB, WORDS)
    others = tl.exp2((of_key(rest) - row.top) * row.scale)
    if cuts.top_p < 1.0:
        target = cuts.top_p * mass
        known = tl.where(ranked & held, least, tl.maximum(least, rest + 1))
        likely = tl.sum(tl.where(keys >= known, weights, 0.0))
        if (known == least) | (likely >= target):
            least = key_of_mass(keys, weights, target, known)
        elif others >= cuts.min_p:
            # Else what min-p leaves over is held, all of it likelier than the nucleus's last.
            least = mass_in_row(row, target, least, VOCAB, WORDS)
    if (least > rest) | (others < cuts.min_p):
        inside = (keys >= least) & (weights >= cuts.min_p) & (excluded_from(column, excluded) == 0)
        score, token = best_of(x, column, inside, row.scale, row.top, key)
        token = tl.where(score > float("-inf"), token, -1)
    else:
        token = draw_from_all(row, least, cuts.min_p, key, excluded, VOCAB, WORDS)
    return token


@triton.jit
def draw_by_threshold(
    row: Row,
    kept: tl.tensor,
    whole: tl.tensor,
    key: tl.tensor,
    cuts: Cuts,
    excluded: Excluded,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """A token of those kept, the best by its noise."""
    chunk, limit, rest = keep_chunks(row.chunk_max, kept, VOCAB)
    x, column = load_chunks(row, chunk, chunk >= 0, VOCAB, WORDS, BLOCK)
    keys = order_key(x)
    ranked = (cuts.top_k > 0) & (cuts.top_k < VOCAB)
    floor = tl.maximum(limit, order_key(tl.full([], float("-inf"), tl.float32)) + 1)
    token = tl.full([], NOT_FEW, tl.int32)
    count = tl.sum((keys >= floor).to(tl.int32))
    held = cuts.top_k <= tl.maximum(count, BLOCK)
    if (count <= FEW) & ((ranked == 0) | held):
        token = draw_from_few(
            keys, column, floor, kept + BLOCK, whole, row, cuts, ranked, key, excluded
        )
    if token == NOT_FEW:
        token = draw_from_tile(
            row, x, column, keys, limit, rest, whole, ranked, held, key, cuts, excluded,
            VOCAB, WORDS,
        )  # fmt: skip
    return token


@triton.jit
def draw_filtered(
    row: Row,
    kept: tl.tensor,
    noise: Noise,
    cuts: Cuts,
    excluded: Excluded,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """A token of those that the filters keep; -1 where all of these are excluded."""
    whole = mass_in_chunks(row, float("-inf"), 0.0, VOCAB)
    ranked = (cuts.top_k > 0) & (cuts.top_k < VOCAB)
    target = tl.where(cuts.top_p < 1.0, cuts.top_p * whole, float("inf"))
    drawn_from = mass_in_chunks(row, float("-inf"), cuts.min_p, VOCAB)
    token, step = tl.full([], -1, tl.int32), noise.step
    if (ranked == 0) & (excluded.count == 0) & (target >= _RARE * drawn_from):
        token, step = draw_by_rejection(row, noise, cuts, target, VOCAB, WORDS)
    if token < 0:
        key = noise_key(noise.seed, step)
        token = draw_by_threshold(row, kept, whole, key, cuts, excluded, VOCAB, WORDS)
    return token
