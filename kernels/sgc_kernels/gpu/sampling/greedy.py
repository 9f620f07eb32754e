"""The likeliest allowed token of each row, in one kernel that reads the logits once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import Sampled, TokenMasks, Workspace
from sgc_kernels.gpu.sampling.sums import log_sum, put_both, put_sum
from sgc_kernels.gpu.sampling.tile import (
    PART,
    WORD,
    largest,
    load_logits,
    load_words,
    only_allowed,
)

_WARPS = 4


@triton.jit
def _finish(
    start: tl.tensor,
    row: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_row: tl.tensor,
    best: tl.tensor,
    best_at: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    tokens: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    MASKED: tl.constexpr,
    STATS: tl.constexpr,
) -> None:
    part = tl.arange(0, triton.next_power_of_2(PARTS))
    at = row * PARTS + part
    # Past the first-level cache, which may hold a neighbour's line from before it was complete.
    top = tl.load(best + at, mask=part < PARTS, other=float("-inf"), cache_modifier=".cg")
    place = tl.load(best_at + at, mask=part < PARTS, other=0, cache_modifier=".cg")
    most = tl.max(top, 0)
    word = tl.min(tl.where(top == most, place, VOCAB // WORD), 0) + tl.arange(0, 1)
    words = load_words(masks, mask_stride, mask_row, word, NUM_WORDS, MASKED)
    x = only_allowed(load_logits(start, word, word >= 0, VOCAB), words)
    column = word[:, None] * WORD + tl.arange(0, WORD)[None, :]
    token = tl.min(tl.where(x == most, column, VOCAB - 1))
    known = (most > float("-inf")) & (most < float("inf"))
    tl.store(tokens + row, tl.where(known, token, -1))
    if STATS:
        whole = log_sum(raw, row, PARTS)
        share = 0.0
        if mask_row >= 0:
            share = tl.minimum(log_sum(allowed, row, PARTS) - whole, 0.0)
        tl.store(logprobs + row, most - whole)
        tl.store(shares + row, share)


@triton.jit(do_not_specialize=["mask_stride"])
def _greedy(
    logits: tl.tensor,
    stride: tl.tensor,
    masks: tl.tensor,
    mask_stride: tl.tensor,
    mask_rows: tl.tensor,
    best: tl.tensor,
    best_at: tl.tensor,
    raw: tl.tensor,
    allowed: tl.tensor,
    done: tl.tensor,
    tokens: tl.tensor,
    logprobs: tl.tensor,
    shares: tl.tensor,
    VOCAB: tl.constexpr,
    NUM_WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    MASKED: tl.constexpr,
    STATS: tl.constexpr,
) -> None:
    part, row = tl.program_id(0), tl.program_id(1)
    word = part * (PART // WORD) + tl.arange(0, PART // WORD)
    mask_row = tl.load(mask_rows + row) if MASKED else -1
    words = load_words(masks, mask_stride, mask_row, word, NUM_WORDS, MASKED)
    start = logits + row.to(tl.int64) * stride
    x = load_logits(start, word, word >= 0 if STATS else words != 0, VOCAB)
    if MASKED:
        y = only_allowed(x, words)
        if STATS:
            if mask_row >= 0:
                put_both(raw, allowed, row, part, x, y, PARTS)
            else:
                put_sum(raw, row, part, x, PARTS)
        x = y
    elif STATS:
        put_sum(raw, row, part, x, PARTS)
    by_word = largest(x, 1)
    most = tl.max(by_word, 0)
    # Which word it is is enough here; the token is looked up once a row.
    tl.store(best_at + row * PARTS + part, tl.min(tl.where(by_word == most, word, VOCAB), 0))
    tl.store(best + row * PARTS + part, most)
    if tl.atomic_add(done + row, 1, sem="acq_rel") == PARTS - 1:
        tl.store(done + row, 0)
        _finish(
            start, row, masks, mask_stride, mask_row, best, best_at, raw, allowed,
            tokens, logprobs, shares, VOCAB, NUM_WORDS, PARTS, MASKED, STATS,
        )  # fmt: skip


def greedy(
    logits: torch.Tensor,
    work: Workspace,
    masks: TokenMasks | None = None,
    logprobs: bool = False,
    out: Sampled | None = None,
) -> Sampled:
    """The largest logit of each row that its mask allows, the first of equals.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16; not changed.
        logprobs: whether `logprobs` and `shares` are wanted; then masked logits are read as well.
        out: memory for the results.
    """
    work.check(logits)
    rows, vocab = logits.shape
    out = out or Sampled.empty(rows, logits.device, logprobs)
    words = logits if masks is None else masks.words
    _greedy[work.parts, rows](
        logits, logits.stride(0),
        words, words.stride(0), words if masks is None else masks.rows,
        work.best, work.best_at, work.raw, work.allowed, work.done,
        out.tokens, out.logprobs, out.shares,
        VOCAB=vocab, NUM_WORDS=words.shape[1], PARTS=work.parts,
        MASKED=masks is not None, STATS=logprobs, num_warps=_WARPS,
    )  # fmt: skip
    return out
