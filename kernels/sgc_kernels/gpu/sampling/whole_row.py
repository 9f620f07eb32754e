"""Looking at all tokens of a row that matter, by blocks of chunks; others are never read."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.tile import (
    CHUNK,
    WORD,
    load_logits,
    load_words,
    log2_noise,
    only_allowed,
    order_key,
)

BLOCK = tl.constexpr(64)  # chunks at once
_WORDS = tl.constexpr(CHUNK // WORD)


@triton.jit
def load_chunks(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk: tl.tensor,
    wanted: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    MASKED: tl.constexpr,
    COUNT: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Allowed logits, and their token ids, of the chunks `chunk` ([COUNT]) that are `wanted`; both
    `[COUNT * 4, 32]`, minus infinity elsewhere."""
    word = tl.reshape(chunk[:, None] * _WORDS + tl.arange(0, _WORDS)[None, :], [COUNT * _WORDS])
    wide = tl.broadcast_to(wanted[:, None], [COUNT, _WORDS])
    wanted_words = tl.reshape(wide, [COUNT * _WORDS])
    words = load_words(masks, mask_stride, mask_row, word, NUM_WORDS, MASKED)
    x = load_logits(start, word, wanted_words & (words != 0), VOCAB)
    if MASKED:
        x = only_allowed(x, words)
    return x, word[:, None] * WORD + tl.arange(0, WORD)[None, :]


@triton.jit
def excluded_from(column: tl.tensor, excluded: tl.tensor, num_excluded: tl.tensor) -> tl.tensor:
    """Which of `column` are among the `num_excluded` token ids at `excluded`."""
    found = column < 0
    i = 0
    while i < num_excluded:
        found = found | (column == tl.load(excluded + i).to(tl.int32))
        i += 1
    return found


@triton.jit
def best_of(
    x: tl.tensor,
    column: tl.tensor,
    kept: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    key: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
) -> tuple[tl.tensor, tl.tensor]:
    """The best score of the `kept` tokens that are not excluded, and the first id that has it.

    A score is the logit itself where `scale` is 0: then there is no noise.
    """
    if num_excluded > 0:
        kept = kept & (excluded_from(column, excluded, num_excluded) == 0)
    score = tl.where(scale > 0, (x - top) * scale - log2_noise(key, column), x)
    score = tl.where(kept, score, float("-inf"))
    most = tl.max(score)
    return most, tl.min(tl.where(score == most, column, 0x7FFFFFFF))


@triton.jit
def draw_from_all(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    least: tl.tensor,
    min_p: tl.tensor,
    key: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """A token drawn from those with an order key of `least` or more and a weight of `min_p` or
    more; -1 where all of these are excluded."""
    best, token = float("-inf"), -1
    first = 0
    while first < CHUNKS:
        chunk = first + tl.arange(0, BLOCK)
        most = tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        wanted = (order_key(most) >= least) & (most > float("-inf"))
        if tl.max(wanted.to(tl.int32), 0) > 0:
            x, column = load_chunks(
                start, masks, mask_stride, mask_row, chunk, wanted,
                VOCAB, NUM_WORDS, MASKED, BLOCK,
            )  # fmt: skip
            kept = (order_key(x) >= least) & (tl.exp2((x - top) * scale) >= min_p)
            score, at = best_of(x, column, kept, scale, top, key, excluded, num_excluded)
            if score > best:
                best, token = score, at
        first += BLOCK
    return token


@triton.jit
def above(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    limit: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """How many tokens have an order key above `limit`, and the sum of their weights."""
    count, mass = 0, 0.0
    first = 0
    while first < CHUNKS:
        chunk = first + tl.arange(0, BLOCK)
        most = tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        wanted = order_key(most) > limit
        if tl.max(wanted.to(tl.int32), 0) > 0:
            x, _ = load_chunks(
                start, masks, mask_stride, mask_row, chunk, wanted,
                VOCAB, NUM_WORDS, MASKED, BLOCK,
            )  # fmt: skip
            over = order_key(x) > limit
            count += tl.sum(over.to(tl.int32))
            mass += tl.sum(tl.where(over, tl.exp2((x - top) * scale), 0.0))
        first += BLOCK
    return count, mass
