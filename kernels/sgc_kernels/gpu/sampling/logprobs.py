"""Log-probabilities of given tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import num_parts
from sgc_kernels.gpu.sampling.sums import log_sum, put_sum
from sgc_kernels.gpu.sampling.tile import load_logits, part_words

_WARPS = 4


@triton.jit
def _sum_parts(
    logits: tl.tensor, stride: tl.tensor, raw: tl.tensor, VOCAB: tl.constexpr, PARTS: tl.constexpr
) -> None:
    part, row = tl.program_id(0), tl.program_id(1)
    word = part_words(part)
    start = logits + row.to(tl.int64) * stride
    put_sum(raw, row, part, load_logits(start, word, word >= 0, VOCAB), PARTS)


@triton.jit
def _pick(
    logits: tl.tensor,
    stride: tl.tensor,
    raw: tl.tensor,
    rows: tl.tensor,
    ids: tl.tensor,
    out: tl.tensor,
    PARTS: tl.constexpr,
) -> None:
    i = tl.program_id(0)
    row = tl.load(rows + i).to(tl.int64)
    token = tl.maximum(tl.load(ids + i), 0)
    x = tl.load(logits + row * stride + token).to(tl.float32)
    tl.store(out + i, x - log_sum(raw, row, PARTS))


def logprobs_of(
    logits: torch.Tensor,
    rows: torch.Tensor,
    ids: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """float32 `[n]`: the log-probability of `ids[i]` under row `rows[i]` of `logits`.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16, all rows of which are read.
        rows, ids: int32 or int64 `[n]`; what a negative id gives has no meaning.
        out: memory for the result.
    """
    assert rows.is_contiguous(), "indices lie in one piece"
    assert ids.is_contiguous(), "indices lie in one piece"
    count, vocab = logits.shape
    out = torch.empty(len(ids), device=logits.device) if out is None else out
    parts = num_parts(vocab)
    sums = torch.empty(count, 2, parts, device=logits.device)
    if len(ids):
        stride = logits.stride(0)
        _sum_parts[parts, count](logits, stride, sums, VOCAB=vocab, PARTS=parts, num_warps=_WARPS)
        _pick[len(ids),](logits, stride, sums, rows, ids, out, PARTS=parts, num_warps=1)
    return out
