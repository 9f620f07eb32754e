"""Draws a token of each row by temperature, top-k, top-p and min-p, each row by its own numbers.

The first kernel reads the logits once and leaves 8 bytes of 128 tokens; the second, one program a
row, reads of the logits only what may be drawn.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.filtered import draw_filtered
from sgc_kernels.gpu.sampling.params import (
    IdTable,
    RowParams,
    Sampled,
    TokenList,
    TokenMasks,
    Workspace,
)
from sgc_kernels.gpu.sampling.row import Cuts, Excluded, Noise, Row
from sgc_kernels.gpu.sampling.summaries import GREEDY_TEMPERATURE, exponent_scale, summarise
from sgc_kernels.gpu.sampling.sums import store_stats
from sgc_kernels.gpu.sampling.tile import keep, mask_of, noise_key, order_key
from sgc_kernels.gpu.sampling.two_steps import draw_in_two_steps, largest_chunk, token_of
from sgc_kernels.gpu.sampling.whole_row import draw_from_all, num_chunks

_SUMMARY_WARPS = 4
_WARPS = 4
_FILTER_WARPS = 8


@triton.jit
def _draw_plain(
    row: Row,
    best_chunk: tl.tensor,
    noise: Noise,
    excluded: Excluded,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
) -> tl.tensor:
    """A token of a row without filters; the likeliest one where `scale` is 0."""
    token = -1
    key = noise_key(noise.seed, noise.step)
    if excluded.count > 0:
        least = order_key(tl.full([], float("-inf"), tl.float32)) + 1
        token = draw_from_all(row, least, 0.0, key, excluded, VOCAB, WORDS)
    elif row.scale > 0.0:
        token = draw_in_two_steps(row, 0.0, key, VOCAB, WORDS)
    else:
        token = token_of(row, best_chunk, key, VOCAB, WORDS)
    return token


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
    held: tl.tensor,
    tokens: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    ids: tl.tensor,
    places: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    HELD: tl.constexpr,
    EXCLUDES: tl.constexpr,
    FILTERS: tl.constexpr,
    STATS: tl.constexpr,
    KEEPS: tl.constexpr,
) -> None:
    i = tl.program_id(0)
    CHUNKS: tl.constexpr = num_chunks(VOCAB)
    start = logits + i.to(tl.int64) * stride
    mask, bound = mask_of(masks, mask_stride, mask_rows, i, WORDS)
    chunk_max += i * CHUNKS
    chunk_sum += i * CHUNKS
    temperature = tl.load(temperature_of + i)
    greedy = temperature < GREEDY_TEMPERATURE
    scale = tl.where(greedy, 0.0, exponent_scale(temperature))
    best_chunk, top = largest_chunk(chunk_max, VOCAB)
    row = Row(start, mask, bound, chunk_max, chunk_sum, scale, top)
    noise = Noise(tl.load(seed_of + i), tl.load(step_of + i))
    count = tl.load(num_excluded_of + i) if EXCLUDES else 0
    gone = Excluded(excluded + i * excluded_stride, count)
    token = tl.full([], -1, tl.int32)
    if (top > float("-inf")) & (top < float("inf")):
        filters = False
        if FILTERS:
            cuts = Cuts(tl.load(top_k_of_row + i), tl.load(top_p_of + i), tl.load(min_p_of + i))
            ranked = (cuts.top_k > 0) & (cuts.top_k < VOCAB)
            filters = (ranked | (cuts.top_p < 1.0) | (cuts.min_p > 0.0)) & (greedy == 0)
            if filters:
                token = draw_filtered(row, held + i * HELD, noise, cuts, gone, VOCAB, WORDS)
        if filters == 0:
            token = _draw_plain(row, best_chunk, noise, gone, VOCAB, WORDS)
    tl.store(tokens + i, token)
    if KEEPS:
        keep(ids, places, i, token)
    if STATS:
        x = tl.load(start + tl.maximum(token, 0)).to(tl.float32)
        store_stats(x, i, bound, raw, allowed, logprobs, shares, PARTS)


def draw(
    logits: torch.Tensor,
    params: RowParams,
    work: Workspace,
    masks: TokenMasks | None = None,
    excluded: TokenList | None = None,
    filters: bool = True,
    logprobs: bool = False,
    out: Sampled | None = None,
    kept: IdTable | None = None,
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
        kept: where the tokens go, too.
    """
    work.check(logits)
    rows, vocab = logits.shape
    out = out or Sampled.empty(rows, logits.device, logprobs)
    words = logits if masks is None else masks.words
    mask_rows = words if masks is None else masks.rows
    num_words = 0 if masks is None else words.shape[1]
    summarise[work.parts, rows](
        logits, logits.stride(0), params.temperature,
        words, words.stride(0), mask_rows,
        work.chunk_max, work.chunk_sum, work.raw, work.allowed,
        VOCAB=vocab, WORDS=num_words, PARTS=work.parts, STATS=logprobs, num_warps=_SUMMARY_WARPS,
    )  # fmt: skip
    gone = words if excluded is None else excluded.ids
    ids = out.tokens if kept is None else kept.ids
    _draw[rows,](
        logits, logits.stride(0),
        params.temperature, params.top_k, params.top_p, params.min_p, params.seed, params.step,
        words, words.stride(0), mask_rows,
        gone, gone.stride(0), gone if excluded is None else excluded.counts,
        work.chunk_max, work.chunk_sum, work.raw, work.allowed, work.kept,
        out.tokens, out.logprobs, out.shares, ids, ids if kept is None else kept.places,
        VOCAB=vocab, WORDS=num_words, PARTS=work.parts, HELD=work.kept.shape[1],
        EXCLUDES=excluded is not None, FILTERS=filters, STATS=logprobs, KEEPS=kept is not None,
        num_warps=_FILTER_WARPS if filters or excluded is not None else _WARPS,
    )  # fmt: skip
    return out
