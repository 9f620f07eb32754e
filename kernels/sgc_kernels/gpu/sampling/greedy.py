"""The likeliest allowed token of each row, in one kernel that reads the logits once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import IdTable, Sampled, TokenMasks, Workspace
from sgc_kernels.gpu.sampling.sums import load_part, store_stats
from sgc_kernels.gpu.sampling.tile import (
    WORD,
    keep,
    largest,
    load_logits,
    load_words,
    mask_of,
    only_allowed,
    part_words,
)

_WARPS = 4


@triton.jit
def _token_of_parts(
    start: tl.tensor,
    mask: tl.tensor,
    bound: tl.tensor,
    best: tl.tensor,
    best_at: tl.tensor,
    row: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """A row's token and its logit, out of the best words of all parts."""
    part = tl.arange(0, triton.next_power_of_2(PARTS))
    at = row * PARTS + part
    # Past the first-level cache, which may hold a neighbour's line from before it was complete.
    top = tl.load(best + at, mask=part < PARTS, other=float("-inf"), cache_modifier=".cg")
    place = tl.load(best_at + at, mask=part < PARTS, other=0, cache_modifier=".cg")
    most = tl.max(top, 0)
    word = tl.min(tl.where(top == most, place, VOCAB // WORD), 0) + tl.arange(0, 1)
    words = load_words(mask, bound, word, WORDS)
    x = only_allowed(load_logits(start, word, word >= 0, VOCAB), words)
    column = word[:, None] * WORD + tl.arange(0, WORD)[None, :]
    token = tl.min(tl.where(x == most, column, VOCAB - 1))
    known = (most > float("-inf")) & (most < float("inf"))
    return tl.where(known, token, -1), most


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
    ids: tl.tensor,
    places: tl.tensor,
    VOCAB: tl.constexpr,
    WORDS: tl.constexpr,
    PARTS: tl.constexpr,
    STATS: tl.constexpr,
    KEEPS: tl.constexpr,
) -> None:
    part, row = tl.program_id(0), tl.program_id(1)
    start = logits + row.to(tl.int64) * stride
    mask, bound = mask_of(masks, mask_stride, mask_rows, row, WORDS)
    x = load_part(start, mask, bound, raw, allowed, row, part, VOCAB, WORDS, PARTS, STATS)
    by_word = largest(x, 1)
    most = tl.max(by_word, 0)
    # Which word it is is enough here; the token is looked up once a row.
    at = tl.min(tl.where(by_word == most, part_words(part), VOCAB), 0)
    tl.store(best_at + row * PARTS + part, at)
    tl.store(best + row * PARTS + part, most)
    if tl.atomic_add(done + row, 1, sem="acq_rel") == PARTS - 1:
        tl.store(done + row, 0)
        token, most = _token_of_parts(start, mask, bound, best, best_at, row, VOCAB, WORDS, PARTS)
        tl.store(tokens + row, token)
        if KEEPS:
            keep(ids, places, row, token)
        if STATS:
            store_stats(most, row, bound, raw, allowed, logprobs, shares, PARTS)


def greedy(
    logits: torch.Tensor,
    work: Workspace,
    masks: TokenMasks | None = None,
    logprobs: bool = False,
    out: Sampled | None = None,
    kept: IdTable | None = None,
) -> Sampled:
    """The largest logit of each row that its mask allows, the first of equals.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16; not changed.
        logprobs: whether `logprobs` and `shares` are wanted; then masked logits are read as well.
        out: memory for the results.
        kept: where the tokens go, too.
    """
    work.check(logits)
    rows, vocab = logits.shape
    out = out or Sampled.empty(rows, logits.device, logprobs)
    words = logits if masks is None else masks.words
    ids = out.tokens if kept is None else kept.ids
    _greedy[work.parts, rows](
        logits, logits.stride(0),
        words, words.stride(0), words if masks is None else masks.rows,
        work.best, work.best_at, work.raw, work.allowed, work.done,
        out.tokens, out.logprobs, out.shares, ids, ids if kept is None else kept.places,
        VOCAB=vocab, WORDS=0 if masks is None else words.shape[1], PARTS=work.parts,
        STATS=logprobs, KEEPS=kept is not None, num_warps=_WARPS,
    )  # fmt: skip
    return out
