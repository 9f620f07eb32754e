"""What the router says of each expert for each token."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents


@triton.jit(do_not_specialize=["tokens"])
def _scores(
    x: tl.tensor,
    router: tl.tensor,
    scores: tl.tensor,
    tokens: tl.tensor,
    x_stride: tl.tensor,
    EXPERTS: tl.constexpr,
    HIDDEN: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
    STEP: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    if PDL:
        gdc_launch_dependents()
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    expert = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, STEP)
    exists = (expert < EXPERTS)[:, None]
    rows = x + tl.where(token < tokens, token, 0).to(tl.int64)[:, None] * x_stride + column[None, :]
    places = router + expert[:, None] * HIDDEN + column[None, :]
    sums = tl.zeros([TOKENS, BLOCK], dtype=tl.float32)
    for first in range(0, HIDDEN, STEP):
        within = (first + column < HIDDEN)[None, :]
        row = tl.load(rows + first, mask=within, other=0.0)
        weight = tl.load(places + first, mask=exists & within, other=0.0)
        sums = tl.dot(row, tl.trans(weight), sums, input_precision="ieee")
    inside = (token < tokens)[:, None] & (expert < EXPERTS)[None, :]
    tl.store(scores + token[:, None] * EXPERTS + expert[None, :], sums, mask=inside)


def score(x: torch.Tensor, router: torch.Tensor, pdl: bool) -> torch.Tensor:
    """Products `[T, experts]` in float32 of `x` `[T, hidden]` and the router; a row does not depend
    on the others."""
    (tokens, hidden), count = x.shape, router.shape[0]
    scores = torch.empty((tokens, count), dtype=torch.float32, device=x.device)
    # The order in which columns are added up is the same for any block of experts.
    block = min(16 if tokens <= 256 else 64, max(16, triton.next_power_of_2(count)))
    step = min(256 if x.element_size() == 2 else 64, max(16, triton.next_power_of_2(hidden)))
    _scores[(triton.cdiv(tokens, 16), triton.cdiv(count, block))](
        x,
        router,
        scores,
        tokens,
        x.stride(0),
        EXPERTS=count,
        HIDDEN=hidden,
        TOKENS=16,
        BLOCK=block,
        STEP=step,
        PDL=pdl,
        num_warps=4,
        num_stages=4,
    )
    return scores
