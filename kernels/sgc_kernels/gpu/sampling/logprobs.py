"""Log-probabilities of given tokens."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import Workspace
from sgc_kernels.gpu.sampling.sums import log_sum, put_sum
from sgc_kernels.gpu.sampling.tile import PART, WORD, load_logits

_WARPS = 4


@triton.jit
def _sum_parts(
    logits: tl.tensor, stride: tl.tensor, raw: tl.tensor, VOCAB: tl.constexpr, PARTS: tl.constexpr
) -> None:
    part, row = tl.program_id(0), tl.program_id(1)
    word = part * (PART // WORD) + tl.arange(0, PART // WORD)
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
    x = tl.load(logits + row * stride + tl.load(ids + i)).to(tl.float32)
    tl.store(out + i, x - log_sum(raw, row, PARTS))


def logprobs_of(
    logits: torch.Tensor,
    rows: torch.Tensor,
    ids: torch.Tensor,
    work: Workspace,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """float32 `[n]`: the log-probability of `ids[i]` under row `rows[i]` of `logits`.

    Args:
        logits: `[rows, vocab]` float32, bfloat16 or float16.
        rows, ids: int32 or int64 `[n]`.
        out: memory for the result.
    """
    work.check(logits)
    out = torch.empty(len(ids), device=logits.device) if out is None else out
    _sum_parts[work.parts, len(logits)](
        logits, logits.stride(0), work.raw,
        VOCAB=logits.shape[1], PARTS=work.parts, num_warps=_WARPS,
    )  # fmt: skip
    if len(ids):
        _pick[len(ids),](
            logits, logits.stride(0), work.raw, rows, ids, out, PARTS=work.parts, num_warps=1
        )
    return out
