"""A draw from what top-k, top-p and min-p leave over of a row.

The tokens of the chunks with the largest maxima are held at once. Whatever is larger than the
maxima of all other chunks is among them, so a threshold that lies above these is exact. A nucleus
that goes further down is drawn from without its threshold: a token of the whole row is one of the
nucleus if the mass above it is below top-p, and another one is drawn if it is not.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.few import FEW, NOT_FEW, draw_from_few
from sgc_kernels.gpu.sampling.search import key_of_mass, key_of_rank, mass_in_row, rank_in_row
from sgc_kernels.gpu.sampling.tile import noise_key, of_key, order_key, weights_below
from sgc_kernels.gpu.sampling.two_steps import draw_in_two_steps
from sgc_kernels.gpu.sampling.whole_row import BLOCK, above, best_of, draw_from_all, load_chunks

_ROUND = tl.constexpr(2**48)  # above those of the step and of the caller's draws after the first
_ROUNDS = tl.constexpr(12)
_RARE = tl.constexpr(0.25)  # a smaller share of the row would take too many rounds


@triton.jit
def keep_chunks(
    chunk_max: tl.tensor, kept: tl.tensor, CHUNKS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The BLOCK chunks with the largest maxima, and the order keys of the smallest one of these
    and of the largest other one."""
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
def row_mass(
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    top: tl.tensor,
    scale: tl.tensor,
    CHUNKS: tl.constexpr,
) -> tl.tensor:
    """The sum of all weights of a row."""
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    most = tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
    total = tl.load(chunk_sum + chunk, mask=chunk < CHUNKS, other=0.0)
    return tl.sum(total * weights_below(most, top, scale), 0)


@triton.jit
def draw_verified(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    seed: tl.tensor,
    step: tl.tensor,
    least: tl.tensor,
    target: tl.tensor,
    rare: tl.tensor,
    min_p: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """A token of those from `least` on with less than `target` in sum above them."""
    token, turn = -1, 0
    turns = tl.where((min_p > 0.0) | (num_excluded > 0) | rare, 0, _ROUNDS)
    while (token < 0) & (turn < turns):
        key = noise_key(seed, step)
        drawn = draw_in_two_steps(
            start, masks, mask_stride, mask_row, chunk_max, chunk_sum, scale, top, key,
            VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
        drawn_key = order_key(tl.load(start + drawn).to(tl.float32))
        _, mass = above(
            start, masks, mask_stride, mask_row, chunk_max, scale, top, drawn_key,
            VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
        if (mass < target) & (drawn_key >= least):
            token = drawn
        step += _ROUND
        turn += 1
    if token < 0:
        least = mass_in_row(
            start, masks, mask_stride, mask_row, chunk_max, scale, top, target, least,
            order_key(top), VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
        key = noise_key(seed, step)
        token = draw_from_all(
            start, masks, mask_stride, mask_row, chunk_max, scale, top, least, min_p, key,
            excluded, num_excluded, VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    return token


@triton.jit
def top_k_of(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    keys: tl.tensor,
    weights: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    top_k: tl.tensor,
    limit: tl.tensor,
    least: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The order key of the last of the `top_k` likeliest tokens, and the sum of their weights."""
    if top_k <= BLOCK:
        last = key_of_rank(keys, top_k, limit)  # so many tokens reach it
        over = keys > last
        count = tl.sum(over.to(tl.int32))
        mass = tl.sum(tl.where(over, weights, 0.0))
    else:
        last = rank_in_row(
            start, masks, mask_stride, mask_row, chunk_max, scale, top, top_k, least,
            order_key(top), VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
        count, mass = above(
            start, masks, mask_stride, mask_row, chunk_max, scale, top, last,
            VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    # Of tokens as likely as the last one, so many as are needed count; none where all are kept.
    weight = tl.where(last > least, tl.exp2((of_key(last) - top) * scale), 0.0)
    return tl.maximum(last, least), mass + (top_k - count).to(tl.float32) * weight


@triton.jit
def draw_from_tile(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    x: tl.tensor,
    column: tl.tensor,
    keys: tl.tensor,
    limit: tl.tensor,
    rest: tl.tensor,
    whole: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    seed: tl.tensor,
    step: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    min_p: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """A token of those kept, however many these are; `rest` is the largest key not in `keys`."""
    weights = tl.exp2((x - top) * scale)
    least = order_key(tl.full([], float("-inf"), tl.float32)) + 1
    mass = whole
    ranked = (top_k > 0) & (top_k < VOCAB)
    if ranked:
        least, mass = top_k_of(
            start, masks, mask_stride, mask_row, chunk_max, keys, weights, scale, top, top_k,
            limit, least, VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    target = top_p * mass
    beyond = False
    if top_p < 1.0:
        known = tl.where(ranked & (top_k <= BLOCK), least, tl.maximum(least, rest + 1))
        held = tl.sum(tl.where(keys >= known, weights, 0.0))
        if (known == least) | (held >= target):
            least = key_of_mass(keys, weights, target, known)
        else:
            # What min-p leaves over may still be held, all of it likelier than the nucleus's last.
            beyond = tl.exp2((of_key(rest) - top) * scale) >= min_p
    token = -1
    if beyond:
        token = draw_verified(
            start, masks, mask_stride, mask_row, chunk_max, chunk_sum, scale, top, seed, step,
            least, target, target < _RARE * whole, min_p, excluded, num_excluded,
            VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    else:
        key = noise_key(seed, step)
        if (least > rest) | (tl.exp2((of_key(rest) - top) * scale) < min_p):
            inside = (keys >= least) & (weights >= min_p)
            score, token = best_of(x, column, inside, scale, top, key, excluded, num_excluded)
            token = tl.where(score > float("-inf"), token, -1)
        else:
            token = draw_from_all(
                start, masks, mask_stride, mask_row, chunk_max, scale, top, least, min_p, key,
                excluded, num_excluded, VOCAB, NUM_WORDS, CHUNKS, MASKED,
            )  # fmt: skip
    return token


@triton.jit
def draw_filtered(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    kept: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    seed: tl.tensor,
    step: tl.tensor,
    top_k: tl.tensor,
    top_p: tl.tensor,
    min_p: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    chunk, limit, rest = keep_chunks(chunk_max, kept, CHUNKS)
    x, column = load_chunks(
        start, masks, mask_stride, mask_row, chunk, chunk >= 0, VOCAB, NUM_WORDS, MASKED, BLOCK
    )
    keys = order_key(x)
    whole = row_mass(chunk_max, chunk_sum, top, scale, CHUNKS)
    ranked = (top_k > 0) & (top_k < VOCAB)
    floor = tl.maximum(limit, order_key(tl.full([], float("-inf"), tl.float32)) + 1)
    token = tl.full([], NOT_FEW, tl.int32)
    if (tl.sum((keys >= floor).to(tl.int32)) <= FEW) & ((ranked == 0) | (top_k <= BLOCK)):
        token = draw_from_few(
            keys, column, floor, kept + BLOCK, whole, ranked, scale, top, noise_key(seed, step),
            top_k, top_p, min_p, excluded, num_excluded,
        )  # fmt: skip
    if token == NOT_FEW:
        token = draw_from_tile(
            start, masks, mask_stride, mask_row, chunk_max, chunk_sum, x, column, keys,
            limit, rest, whole, scale, top, seed, step, top_k, top_p, min_p,
            excluded, num_excluded, VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    return token
