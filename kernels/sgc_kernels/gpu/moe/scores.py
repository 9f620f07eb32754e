"""What the router says of each expert for each token.

Columns are added up in parts, and parts in their order: in programs of their own where there are
few tokens (`route.py` adds them), else one after the other, with the same result bit by bit.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

_PART = 512  # columns
_MOST_APART = 256  # tokens


@triton.jit
def _add_part(
    rows: tl.tensor,
    places: tl.tensor,
    exists: tl.tensor,
    begin: tl.tensor,
    HIDDEN: tl.constexpr,
    PART: tl.constexpr,
    STEP: tl.constexpr,
) -> tl.tensor:
    column = tl.arange(0, STEP)
    sums = tl.zeros([rows.shape[0], places.shape[0]], dtype=tl.float32)
    for i in tl.static_range(PART // STEP):
        first = begin + i * STEP
        within = (first + column < HIDDEN)[None, :]
        row = tl.load(rows + first, mask=within, other=0.0)
        weight = tl.load(places + first, mask=exists & within, other=0.0)
        sums = tl.dot(row, tl.trans(weight), sums, input_precision="ieee")
    return sums


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
    PART: tl.constexpr,
    STEP: tl.constexpr,
    APART: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """Program (tokens, experts, part)."""
    if PDL:
        gdc_launch_dependents()
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    expert = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    column = tl.arange(0, STEP)
    exists = (expert < EXPERTS)[:, None]
    rows = x + tl.where(token < tokens, token, 0).to(tl.int64)[:, None] * x_stride + column[None, :]
    places = router + expert[:, None] * HIDDEN + column[None, :]
    part = tl.program_id(2)
    if APART:
        sums = _add_part(rows, places, exists, part * PART, HIDDEN, PART, STEP)
        scores += part * tokens * EXPERTS
    else:
        sums = tl.zeros([TOKENS, BLOCK], dtype=tl.float32)
        for begin in range(0, HIDDEN, PART):
            sums += _add_part(rows, places, exists, begin, HIDDEN, PART, STEP)
    inside = (token < tokens)[:, None] & (expert < EXPERTS)[None, :]
    tl.store(scores + token[:, None] * EXPERTS + expert[None, :], sums, mask=inside)


def score(x: torch.Tensor, router: torch.Tensor, pdl: bool) -> torch.Tensor:
    """Products in float32 of `x` `[T, hidden]` and the router, in parts `[parts, T, experts]` that
    are to be added in their order; a row does not depend on the others."""
    (tokens, hidden), count = x.shape, router.shape[0]
    apart = tokens <= _MOST_APART
    parts = triton.cdiv(hidden, _PART) if apart else 1
    scores = torch.empty((parts, tokens, count), dtype=torch.float32, device=x.device)
    block = min(16 if apart else 64, max(16, triton.next_power_of_2(count)))
    _scores[(triton.cdiv(tokens, 16), triton.cdiv(count, block), parts)](
        x,
        router,
        scores,
        tokens,
        x.stride(0),
        EXPERTS=count,
        HIDDEN=hidden,
        TOKENS=16,
        BLOCK=block,
        PART=_PART,
        STEP=256 if x.element_size() == 2 else 64,
        APART=apart,
        PDL=pdl,
        num_warps=4,
        num_stages=2,
    )
    return scores
