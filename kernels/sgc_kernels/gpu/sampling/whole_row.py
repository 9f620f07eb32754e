"""Looking at all tokens of a row that matter, by blocks of chunks; others are never read."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.row import Excluded, Row
from sgc_kernels.gpu.sampling.tile import (
    CHUNK,
    PART,
    WORD,
    load_logits,
    load_words,
    log2_noise,
    only_allowed,
    order_key,
)

BLOCK = tl.constexpr(64)  # chunks at once
_WORDS_OF_CHUNK = tl.constexpr(CHUNK // WORD)


@triton.constexpr_function
def num_chunks(vocab: int) -> int:
    """Chunks of a row, those of its last part that hold nothing among them."""
    return int(-(-vocab // PART) * (PART // CHUNK))


@triton.jit
def load_chunks(
    row: Row,
    chunk: tl.tensor,
    wanted: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    COUNT: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Allowed logits, and their token ids, of the chunks `chunk` ([COUNT]) that are `wanted`; both
    `[COUNT * 4, 32]`, minus infinity elsewhere."""
    SIZE: tl.constexpr = COUNT * _WORDS_OF_CHUNK
    inside = tl.arange(0, _WORDS_OF_CHUNK)
    word = tl.reshape(chunk[:, None] * _WORDS_OF_CHUNK + inside[None, :], [SIZE])
    wide = tl.broadcast_to(wanted[:, None], [COUNT, _WORDS_OF_CHUNK])
    words = load_words(row.mask, row.bound, word, WORDS)
    x = load_logits(row.start, word, tl.reshape(wide, [SIZE]) & (words != 0), VOCAB)
    if WORDS > 0:
        x = only_allowed(x, words)
    return x, word[:, None] * WORD + tl.arange(0, WORD)[None, :]


@triton.jit
def excluded_from(column: tl.tensor, excluded: Excluded) -> tl.tensor:
    """Which of `column` are excluded."""
    found = column < 0
    i = 0
    while i < excluded.count:
        found = found | (column == tl.load(excluded.ids + i).to(tl.int32))
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
) -> tuple[tl.tensor, tl.tensor]:
    """The best score of the `kept` tokens, and the first id that has it.

    A score is the logit itself where `scale` is 0: then there is no noise.
    """
    score = tl.where(scale > 0, (x - top) * scale - log2_noise(key, column), x)
    score = tl.where(kept, score, float("-inf"))
    most = tl.max(score)
    return most, tl.min(tl.where(score == most, column, 0x7FFFFFFF))


@triton.jit
def draw_from_all(
    row: Row,
    least: tl.tensor,
    min_p: tl.tensor,
    key: tl.tensor,
    excluded: Excluded,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """A token drawn from those with an order key of `least` or more and a weight of `min_p` or
    more; -1 where all of these are excluded."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    best, token = float("-inf"), -1
    first = 0
    while first < CHUNKS:
        chunk = first + tl.arange(0, BLOCK)
        most = tl.load(row.chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        wanted = (order_key(most) >= least) & (most > float("-inf"))
        if tl.max(wanted.to(tl.int32), 0) > 0:
            x, column = load_chunks(row, chunk, wanted, VOCAB, WORDS, BLOCK)
            kept = (order_key(x) >= least) & (tl.exp2((x - row.top) * row.scale) >= min_p)
            kept = kept & (excluded_from(column, excluded) == 0)
            score, at = best_of(x, column, kept, row.scale, row.top, key)
            if score > best:
                best, token = score, at
        first += BLOCK
    return token


@triton.jit
def above(
    row: Row, limit: tl.tensor, VOCAB: tl.constexpr, WORDS: tl.constexpr
) -> tuple[tl.tensor, tl.tensor]:
    """How many tokens have an order key above `limit`, and the sum of their weights."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    count, mass = 0, 0.0
    first = 0
    while first < CHUNKS:
        chunk = first + tl.arange(0, BLOCK)
        most = tl.load(row.chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
        wanted = order_key(most) > limit
        if tl.max(wanted.to(tl.int32), 0) > 0:
            x, _ = load_chunks(row, chunk, wanted, VOCAB, WORDS, BLOCK)
            over = order_key(x) > limit
            count += tl.sum(over.to(tl.int32))
            mass += tl.sum(tl.where(over, tl.exp2((x - row.top) * row.scale), 0.0))
        first += BLOCK
    return count, mass
