"""Experts of a few tokens, whose weights are read once and kept in registers: see
`sgc_kernels.gpu.gemv`.

No pair waits for another: each reads the rows of its own expert. Pairs of the same expert run
beside each other, so that the cache gives them its weights.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sgc_kernels.gpu.gemv import MAX_WIDTH, Tile
from sgc_kernels.gpu.moe.route import Routes
from sgc_kernels.moe import Experts


@triton.jit
def _gate_up(
    x: tl.tensor,
    weight: tl.tensor,
    experts: tl.tensor,
    out: tl.tensor,
    x_stride: tl.tensor,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    if PDL:
        gdc_wait()
        # Only now: what follows may read the choice of experts before its own wait.
        gdc_launch_dependents()
    pair = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < N)[:, None] & (column < K)[None, :]
    expert = tl.load(experts + pair).to(tl.int64)
    place = weight + (expert * (2 * N) + row)[:, None] * K + column[None, :]
    gate = tl.load(place, mask=inside, other=0.0)
    up = tl.load(place + N * K, mask=inside, other=0.0)
    token = pair // TOP_K
    number = tl.load(x + token * x_stride + column, mask=column < K, other=0.0).to(tl.float32)
    left = tl.sum(gate.to(tl.float32) * number[None, :], axis=1)
    right = tl.sum(up.to(tl.float32) * number[None, :], axis=1)
    y = left / (1.0 + tl.exp(-left)) * right
    tl.store(out + pair * N + row, y.to(out.dtype.element_ty), mask=row < N)


@triton.jit
def _down(
    x: tl.tensor,
    weight: tl.tensor,
    experts: tl.tensor,
    shares: tl.tensor,
    out: tl.tensor,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    if PDL:
        gdc_launch_dependents()
    token = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside = (row < N)[:, None] & (column < K)[None, :]
    sums = tl.zeros([ROWS, BLOCK], dtype=tl.float32)
    if PDL:
        # The first weights arrive while the kernel before runs.
        first = tl.load(experts + token * TOP_K).to(tl.int64)
        early = tl.load(
            weight + (first * N + row)[:, None] * K + column[None, :], mask=inside, other=0.0
        )
        gdc_wait()
    for j in tl.static_range(TOP_K):
        pair = token * TOP_K + j
        if PDL and j == 0:
            tile = early
        else:
            expert = tl.load(experts + pair).to(tl.int64)
            place = weight + (expert * N + row)[:, None] * K + column[None, :]
            tile = tl.load(place, mask=inside, other=0.0)
        number = tl.load(x + pair * K + column, mask=column < K, other=0.0).to(tl.float32)
        share = tl.load(shares + pair)
        sums += tile.to(tl.float32) * (number * share)[None, :]
    y = tl.sum(sums, axis=1)
    tl.store(out + token * N + row, y.to(out.dtype.element_ty), mask=row < N)


def fits(experts: Experts) -> bool:
    """Whether whole rows of the weights fit into a program."""
    return max(experts.gate_up.shape[2], experts.down.shape[2]) <= MAX_WIDTH


def few_tokens(x: torch.Tensor, experts: Experts, routes: Routes, pdl: bool) -> torch.Tensor:
    """The weighted sums `[T, hidden]` for tokens `x` `[T, hidden]` whose rows lie in one piece."""
    return down(gate_up(x, experts, routes, pdl), experts, routes, pdl)


def gate_up(
    x: torch.Tensor, experts: Experts, routes: Routes, pdl: bool, tile: Tile | None = None
) -> torch.Tensor:
    """`silu(gate) * up` of each pair, `[T * top_k, width]`."""
    tokens, hidden = x.shape
    width, top_k = experts.down.shape[2], experts.top_k
    out = torch.empty((tokens * top_k, width), dtype=x.dtype, device=x.device)
    tile = tile or _gate_tile(hidden)
    _gate_up[(tokens * top_k, triton.cdiv(width, tile.rows))](
        x,
        experts.gate_up,
        routes.experts,
        out,
        x.stride(0),
        TOP_K=top_k,
        N=width,
        K=hidden,
        ROWS=tile.rows,
        BLOCK=triton.next_power_of_2(hidden),
        PDL=pdl,
        num_warps=tile.warps,
        **({"launch_pdl": True} if pdl else {}),
    )
    return out


def down(
    x: torch.Tensor, experts: Experts, routes: Routes, pdl: bool, tile: Tile | None = None
) -> torch.Tensor:
    """What the experts make of `gate_up`, summed by token with their weights: `[T, hidden]`.

    With `pdl` the kernel before must be that of `gate_up`.
    """
    tokens = routes.experts.shape[0]
    hidden, width = experts.down.shape[1:]
    out = torch.empty((tokens, hidden), dtype=x.dtype, device=x.device)
    tile = tile or _down_tile(width)
    _down[(tokens, triton.cdiv(hidden, tile.rows))](
        x,
        experts.down,
        routes.experts,
        routes.weights,
        out,
        TOP_K=experts.top_k,
        N=hidden,
        K=width,
        ROWS=tile.rows,
        BLOCK=triton.next_power_of_2(width),
        PDL=pdl,
        num_warps=tile.warps,
        **({"launch_pdl": True} if pdl else {}),
    )
    return out


def _gate_tile(hidden: int) -> Tile:
    """What was fastest (bfloat16, H200)."""
    return Tile(1, 4) if hidden > 2048 else Tile(2, 4)


def _down_tile(width: int) -> Tile:
    """What was fastest (bfloat16, H200)."""
    return Tile(4 if width <= 1024 else 1, 4)
