"""A draw from a whole row by its chunks' sums: a chunk first, then a token in it."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.tile import CHUNK, fast_log2, log2_noise
from sgc_kernels.gpu.sampling.whole_row import best_of, load_chunks


@triton.jit
def largest_chunk(start: tl.tensor, CHUNKS: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Index and value of the first of a row's largest numbers at `start`."""
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    number = tl.load(start + chunk, mask=chunk < CHUNKS, other=float("-inf"))
    most = tl.max(number, 0)
    return tl.min(tl.where(number == most, chunk, CHUNKS - 1), 0), most


@triton.jit
def draw_in_two_steps(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    key: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """A token with a probability in proportion to its weight.

    Each chunk has noise of its own, and so has each token of the chosen chunk: unlike a running
    sum compared with one number, this gives the same token when sums move by rounding.
    """
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    there = chunk < CHUNKS
    most = tl.load(chunk_max + chunk, mask=there, other=float("-inf"))
    total = tl.load(chunk_sum + chunk, mask=there, other=0.0)
    score = (most - top) * scale + fast_log2(total) - log2_noise(key, chunk + CHUNKS * CHUNK)
    score = tl.where(most > float("-inf"), score, float("-inf"))
    chosen = tl.min(tl.where(score == tl.max(score, 0), chunk, CHUNKS - 1), 0)
    return token_of(
        start, masks, mask_stride, mask_row, chosen, scale, top, key, VOCAB, NUM_WORDS, MASKED
    )


@triton.jit
def token_of(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    key: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """The best token of one chunk (see `best_of`)."""
    chunks = chunk + tl.arange(0, 1)
    x, column = load_chunks(
        start, masks, mask_stride, mask_row, chunks, chunks >= 0, VOCAB, NUM_WORDS, MASKED, 1
    )
    _, token = best_of(x, column, column >= 0, scale, top, key, start, 0)
    return token
