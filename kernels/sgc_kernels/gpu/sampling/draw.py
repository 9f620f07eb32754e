"""Draws a token of each row by temperature, top-k, top-p and min-p, each row by its own numbers.

The first kernel reads the logits once and leaves 8 bytes of 128 tokens; the second, one program a
row, reads of the logits only what may be drawn.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.filtered import draw_filtered
from sgc_kernels.gpu.sampling.params import RowParams, Sampled, TokenList, TokenMasks, Workspace
from sgc_kernels.gpu.sampling.summaries import GREEDY_TEMPERATURE, exponent_scale, summarise
from sgc_kernels.gpu.sampling.sums import log_of, log_sum
from sgc_kernels.gpu.sampling.tile import CHUNK, LOG2_E, PART, noise_key, order_key
from sgc_kernels.gpu.sampling.two_steps import draw_in_two_steps, largest_chunk, token_of
from sgc_kernels.gpu.sampling.whole_row import draw_from_all

_SUMMARY_WARPS = 4
_WARPS = 4
_FILTER_WARPS = 8


@triton.jit
def _plain(
    start: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    best_chunk: tl.tensor,
    scale: tl.tensor,
    top: tl.tensor,
    key: tl.tensor,
    excluded: tl.tensor,
    num_excluded: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    CHUNKS: tl.constexpr,
    MASKED: tl.constexpr,
) -> tl.tensor:
    """A token of a row without filters; the likeliest one where `scale` is 0."""
    token = -1
    if num_excluded > 0:
        token = draw_from_all(
            start, masks, mask_stride, mask_row, chunk_max, scale, top,
            order_key(tl.full([], float("-inf"), tl.float32)) + 1, 0.0, key,
            excluded, num_excluded, VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    elif scale > 0.0:
        token = draw_in_two_steps(
            start, masks, mask_stride, mask_row, chunk_max, chunk_sum, scale, top, key,
            VOCAB, NUM_WORDS, CHUNKS, MASKED,
        )  # fmt: skip
    else:
        token = token_of(
            start, masks, mask_stride, mask_row, best_chunk, scale, top, key,
            VOCAB, NUM_WORDS, MASKED,
        )  # fmt: skip
    return token


@triton.jit
def _store_stats(
    start: tl.tensor,
    row: tl.tensor,
    token: tl.tensor,
    masked: tl.tensor,
    at_one: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    PARTS: tl.constexpr,
    CHUNKS: tl.constexpr,
) -> None:
    chunk = tl.arange(0, triton.next_power_of_2(CHUNKS))
    most = tl.load(chunk_max + chunk, mask=chunk < CHUNKS, other=float("-inf"))
    total = tl.load(chunk_sum + chunk, mask=chunk < CHUNKS, other=0.0)
    # The chunks' sums are those of the allowed tokens at the row's temperature.
    whole = log_of(most, total)
    some = whole
    if masked | (at_one == 0):
        if masked & (at_one == 0):
            some = log_sum(allowed, row, PARTS)
        whole = log_sum(raw, row, PARTS)
    x = tl.load(start + tl.maximum(token, 0)).to(tl.float32)
    tl.store(logprobs + row, x - whole)
    tl.store(shares + row, tl.where(masked, tl.minimum(some - whole, 0.0), 0.0))


@triton.jit(do_not_specialize=["mask_stride", "excluded_stride"])
def _draw(
    logits: tl.tensor,
    stride: tl.tensor,
    temperature_of: tl.tensor,
    top_k_of_row: tl.tensor,
    top_p_of: tl.tensor,
    min_p_of: tl.tensor,
    seed_of: tl.tensor,
    step_of: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_rows: tl.tensor,
    excluded: tl.tensor,
    excluded_stride: tl.tensor,
    num_excluded_of: tl.tensor,
    chunk_max: tl.tensor,
    chunk_sum: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    kept: tl.tensor,
    tokens: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    KEPT: tl.constexpr,
    MASKED: tl.constexpr,
    EXCLUDES: tl.constexpr,
    FILTERS: tl.constexpr,
    STATS: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    CHUNKS: tl.constexpr = PARTS * (PART // CHUNK)
    start = logits + row.to(tl.int64) * stride
    chunk_max += row * CHUNKS
    chunk_sum += row * CHUNKS
    mask_row = tl.load(mask_rows + row) if MASKED else -1
    num_excluded = tl.load(num_excluded_of + row) if EXCLUDES else 0
    excluded += row * excluded_stride
    temperature = tl.load(temperature_of + row)
    greedy = temperature < GREEDY_TEMPERATURE
    scale = tl.where(greedy, 0.0, exponent_scale(temperature))
    seed, step = tl.load(seed_of + row), tl.load(step_of + row)
    best_chunk, top = largest_chunk(chunk_max, CHUNKS)
    token = tl.full([], -1, tl.int32)
    if (top > float("-inf")) & (top < float("inf")):
        filters = False
        if FILTERS:
            top_k, top_p = tl.load(top_k_of_row + row), tl.load(top_p_of + row)
            min_p = tl.load(min_p_of + row)
            cut = ((top_k > 0) & (top_k < VOCAB)) | (top_p < 1.0) | (min_p > 0.0)
            filters = cut & (greedy == 0)
            if filters:
                token = draw_filtered(
                    start, masks, mask_stride, mask_row, chunk_max, chunk_sum, kept + row * KEPT,
                    scale, top, seed, step, top_k, top_p, min_p, excluded, num_excluded,
                    VOCAB, NUM_WORDS, CHUNKS, MASKED,
                )  # fmt: skip
        if filters == 0:
            token = _plain(
                start, masks, mask_stride, mask_row, chunk_max, chunk_sum, best_chunk,
                scale, top, noise_key(seed, step), excluded, num_excluded,
                VOCAB, NUM_WORDS, CHUNKS, MASKED,
            )  # fmt: skip
    tl.store(tokens + row, token)
    if STATS:
        _store_stats(
            start, row, token, mask_row >= 0, exponent_scale(temperature) == LOG2_E,
            chunk_max, chunk_sum, raw, allowed, logprobs, shares, PARTS, CHUNKS,
        )  # fmt: skip


def draw(
    logits: torch.Tensor,
    params: RowParams,
    work: Workspace,
    masks: TokenMasks | None = None,
    excluded: TokenList | None = None,
    filters: bool = True,
    logprobs: bool = False,
    out: Sampled | None = None,
) -> Sampled:
    """One token of each row; its distribution is that of `reference.kept`.

    top-k keeps the k likeliest tokens; top-p of these the smallest set that holds `top_p` of their
    mass; min-p those with at least `min_p` times the largest probability. Tokens as likely as the
    last one kept are kept, too. A row's token is a function of its own logits, mask, numbers and
    excluded tokens alone.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16; not changed.
        excluded: tokens that count for the filters but are not drawn (those drawn before that
            turned out not to fit); the token is -1 where the filters leave over nothing else.
        filters: whether some row has a top-k, top-p or min-p; False is faster.
        logprobs: whether `logprobs` and `shares` are wanted; then masked logits are read as well.
        out: memory for the results.
    """
    work.check(logits)
    rows, vocab = logits.shape
    out = out or Sampled.empty(rows, logits.device, logprobs)
    words = logits if masks is None else masks.words
    mask_rows = words if masks is None else masks.rows
    summarise[work.parts, rows](
        logits, logits.stride(0), params.temperature,
        words, words.stride(0), mask_rows,
        work.chunk_max, work.chunk_sum, work.raw, work.allowed,
        VOCAB=vocab, NUM_WORDS=words.shape[1], PARTS=work.parts,
        MASKED=masks is not None, STATS=logprobs, num_warps=_SUMMARY_WARPS,
    )  # fmt: skip
    ids = words if excluded is None else excluded.ids
    _draw[rows,](
        logits, logits.stride(0),
        params.temperature, params.top_k, params.top_p, params.min_p, params.seed, params.step,
        words, words.stride(0), mask_rows,
        ids, ids.stride(0), ids if excluded is None else excluded.counts,
        work.chunk_max, work.chunk_sum, work.raw, work.allowed, work.kept,
        out.tokens, out.logprobs, out.shares,
        VOCAB=vocab, NUM_WORDS=words.shape[1], PARTS=work.parts, KEPT=work.kept.shape[1],
        MASKED=masks is not None, EXCLUDES=excluded is not None, FILTERS=filters, STATS=logprobs,
        num_warps=_FILTER_WARPS if filters or excluded is not None else _WARPS,
    )  # fmt: skip
    return out
