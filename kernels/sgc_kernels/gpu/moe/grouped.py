"""Products of tokens with the weights of their experts: blocks of one expert's rows, whose list is
made on the device.

A program computes a block's rows for some columns of the result. With few rows the weights are the
long side of the matrix product (`swap`), as they are nearly all that is read. A row's result is
added up along the input in steps of one length, whatever else is in its block.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sgc_kernels.gpu.moe.route import Routes

_GROUP = 8  # blocks of rows that walk the columns together, so that the cache holds their input


@dataclass(frozen=True, slots=True)
class Tile:
    """Work of a program: `columns` of the result (of each half, for a gated product) in steps of
    `step` along the input, for the rows of a block."""

    columns: int
    step: int
    warps: int
    stages: int
    swap: bool = False


@triton.jit(do_not_specialize=["max_blocks"])
def _product(
    x: tl.tensor,
    weight: tl.tensor,
    order: tl.tensor,
    table: tl.tensor,
    out: tl.tensor,
    max_blocks: tl.tensor,
    x_stride: tl.tensor,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    GATED: tl.constexpr,
    SWAP: tl.constexpr,
    GROUP: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """GATED: rows of x by token, `silu(gate) * up` by place in the order; else the other way
    round: rows of x by place, the result by pair."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    group = tl.program_id(0) // (GROUP * tl.cdiv(N, COLUMNS))
    inner = tl.program_id(0) % (GROUP * tl.cdiv(N, COLUMNS))
    height = min(max_blocks - group * GROUP, GROUP)
    block = group * GROUP + inner % height
    expert = tl.load(table + block).to(tl.int64)
    if expert >= 0:
        place = tl.load(table + max_blocks + block) + tl.arange(0, ROWS)
        exists = place < tl.load(table + 2 * max_blocks + block)
        place = tl.where(exists, place, 0)
        pair = tl.load(order + place)
        source = pair // TOP_K if GATED else place
        target = place if GATED else pair
        column = (inner // height) * COLUMNS + tl.arange(0, COLUMNS)
        within = column < N
        step = tl.arange(0, STEP)
        rows = x + source.to(tl.int64)[:, None] * x_stride + step[None, :]
        first_row = expert * (2 * N if GATED else N)
        # Columns beyond the last read weights of the first, which are there.
        number = tl.where(within, column, 0)
        weights = weight + (first_row + number)[:, None] * K + step[None, :]
        if SWAP:
            sums = tl.zeros([COLUMNS, ROWS], dtype=tl.float32)
        else:
            sums = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
        ups = sums
        for first in range(0, K, STEP):
            inside = (first + step < K)[None, :]
            a = tl.load(rows + first) if K % STEP == 0 else tl.load(rows + first, inside, 0.0)
            if K % STEP == 0:
                b = tl.load(weights + first)
                c = tl.load(weights + N * K + first) if GATED else b
            else:
                b = tl.load(weights + first, inside, 0.0)
                c = tl.load(weights + N * K + first, inside, 0.0) if GATED else b
            if SWAP:
                sums = tl.dot(b, tl.trans(a), sums, input_precision="ieee")
                if GATED:
                    ups = tl.dot(c, tl.trans(a), ups, input_precision="ieee")
            else:
                sums = tl.dot(a, tl.trans(b), sums, input_precision="ieee")
                if GATED:
                    ups = tl.dot(a, tl.trans(c), ups, input_precision="ieee")
        if GATED:
            sums = sums / (1.0 + tl.exp(-sums)) * ups
        result = sums.to(out.dtype.element_ty)
        start = target.to(tl.int64) * N
        if SWAP:
            mask = within[:, None] & exists[None, :]
            tl.store(out + start[None, :] + column[:, None], result, mask=mask)
        else:
            mask = exists[:, None] & within[None, :]
            tl.store(out + start[:, None] + column[None, :], result, mask=mask)


@triton.jit
def _combine(
    y: tl.tensor,
    weights: tl.tensor,
    out: tl.tensor,
    TOP_K: tl.constexpr,
    N: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """A token's pairs, in their order."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    within = column < N
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for j in tl.static_range(TOP_K):
        part = tl.load(y + (token * TOP_K + j) * N + column, mask=within, other=0.0)
        total += part.to(tl.float32) * tl.load(weights + token * TOP_K + j)
    tl.store(out + token * N + column, total.to(out.dtype.element_ty), mask=within)


def gated_product(
    x: torch.Tensor, weight: torch.Tensor, routes: Routes, tile: Tile, pdl: bool
) -> torch.Tensor:
    """`silu(gate) * up` of each pair, by its place in `routes.order`: `[pairs, width]`.

    Args:
        x: `[T, hidden]`, rows in one piece.
        weight: `[experts, 2 * width, hidden]`.
    """
    return _launch(x, weight, routes, tile, True, pdl)


def product(
    x: torch.Tensor, weight: torch.Tensor, routes: Routes, tile: Tile, pdl: bool
) -> torch.Tensor:
    """`x`, by place in `routes.order`, times the weights of its expert, by pair.

    Args:
        x: `[pairs, width]`.
        weight: `[experts, hidden, width]`.

    Returns:
        `[pairs, hidden]`.
    """
    return _launch(x, weight, routes, tile, False, pdl)


def _launch(
    x: torch.Tensor, weight: torch.Tensor, routes: Routes, tile: Tile, gated: bool, pdl: bool
) -> torch.Tensor:
    assert routes.order is not None, "pairs are sorted"
    assert routes.table is not None, "blocks are listed"
    pairs, max_blocks = routes.order.numel(), routes.table.shape[1]
    width = weight.shape[1] // 2 if gated else weight.shape[1]
    out = torch.empty((pairs, width), dtype=x.dtype, device=x.device)
    _product[(max_blocks * triton.cdiv(width, tile.columns),)](
        x,
        weight,
        routes.order,
        routes.table,
        out,
        max_blocks,
        x.stride(0),
        TOP_K=routes.experts.shape[1],
        N=width,
        K=weight.shape[2],
        ROWS=routes.block,
        COLUMNS=tile.columns,
        STEP=tile.step,
        GATED=gated,
        SWAP=tile.swap,
        GROUP=_GROUP,
        PDL=pdl,
        num_warps=tile.warps,
        num_stages=tile.stages,
        **({"launch_pdl": True} if pdl else {}),
    )
    return out


def combine(y: torch.Tensor, weights: torch.Tensor, pdl: bool) -> torch.Tensor:
    """Sums `[T, hidden]` of the pairs `y` `[T * top_k, hidden]` times `weights` `[T, top_k]`; in
    float32, rounded once."""
    tokens, top_k = weights.shape
    width = y.shape[1]
    out = torch.empty((tokens, width), dtype=y.dtype, device=y.device)
    block = min(1024, triton.next_power_of_2(width))
    _combine[(tokens, triton.cdiv(width, block))](
        y,
        weights,
        out,
        TOP_K=top_k,
        N=width,
        BLOCK=block,
        PDL=pdl,
        num_warps=4,
        **({"launch_pdl": True} if pdl else {}),
    )
    return out
