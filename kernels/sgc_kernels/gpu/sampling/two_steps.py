"""A draw from a whole row by its chunks' sums: a chunk first, then a token in it."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.row import Row
from sgc_kernels.gpu.sampling.tile import CHUNK, fast_log2, log2_noise, weights_below
from sgc_kernels.gpu.sampling.whole_row import best_of, load_chunks, num_chunks


@triton.jit
def load_summary(row: Row, VOCAB: tl.constexpr) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Number, largest logit and sum of weights of all chunks; padding holds nothing."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    most = tl.load(row.chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
    return chunk, most, tl.load(row.chunk_sum + chunk, mask=chunk < CHUNKS, other=0.0)


@triton.jit
def largest_chunk(chunk_max: tl.tensor, VOCAB: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Number and value of the first of a row's largest chunks."""
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    number = tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
    most = tl.max(number, 0)
    return tl.min(tl.where(number == most, chunk, CHUNKS - 1), 0), most


@triton.jit
def draw_in_two_steps(
    row: Row, min_p: tl.tensor, key: tl.tensor, VOCAB: tl.constexpr, WORDS: tl.constexpr
) -> tl.tensor:
    """A token with a probability in proportion to its weight, out of the chunks in which some
    token has a weight of `min_p` or more.

    Each chunk has noise of its own, and so has each token of the chosen chunk: unlike a running
    sum compared with one number, this gives the same token when sums move by rounding.
    """
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    chunk, most, total = load_summary(row, VOCAB)
    score = (most - row.top) * row.scale + fast_log2(total)
    score -= log2_noise(key, chunk + CHUNKS * CHUNK)
    there = (most > float("-inf")) & (weights_below(most, row.top, row.scale) >= min_p)
    score = tl.where(there, score, float("-inf"))
    chosen = tl.min(tl.where(score == tl.max(score, 0), chunk, CHUNKS - 1), 0)
    return token_of(row, chosen, key, VOCAB, WORDS)


@triton.jit
def token_of(
    row: Row, chunk: tl.tensor, key: tl.tensor, VOCAB: tl.constexpr, WORDS: tl.constexpr
) -> tl.tensor:
    """The best token of one chunk (see `best_of`)."""
    chunks = chunk + tl.arange(0, 1)
    x, column = load_chunks(row, chunks, chunks >= 0, VOCAB, WORDS, 1)
    _, token = best_of(x, column, column >= 0, row.scale, row.top, key)
    return token
