"""Products for one to four rows on a GPU, where reading the weights is all there is to do.

A program loads its tile, a few rows of the weight over their whole width, into registers; only
then does it wait for the kernel before it (programmatic dependent launch) and read `x`. So the
weights of a product arrive while its input is being computed. Each kernel lets its successor start
at its first instruction, and each waits for all of the kernel before, so that of a chain only one
is past its wait: nothing that the step writes may be read, and nothing at all written, before it.

The factor of the norm is applied after the sum; its statistics come from the same read of `x`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sgc_kernels.fused_linear import Norm

MAX_ROWS = 4
# Rows up to which a layer's four products beat cuBLAS (Llama-3.1-8B in bfloat16 on an H200, us a
# layer with the norms, residuals and gate: 104 against 125 for one row, 154 against 127 for two).
FASTER_ROWS = 1
MAX_WIDTH = 32_768  # of x: a program holds whole rows of the weight


@dataclass(frozen=True, slots=True)
class Tile:
    """Work of a program: `rows` of the weight (of each half, for a gated product) by `warps`."""

    rows: int
    warps: int


@triton.jit
def _gemv(
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    norm: tl.tensor,
    residual: tl.tensor,
    out: tl.tensor,
    x_stride: tl.tensor,
    residual_stride: tl.tensor,
    out_stride: tl.tensor,
    eps: tl.tensor,
    M: tl.constexpr,
    N: tl.constexpr,
    K: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    GATE: tl.constexpr,
    BIAS: tl.constexpr,
    NORM: tl.constexpr,
    RESIDUAL: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    if PDL:
        gdc_launch_dependents()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    inside, within = row < N, column < K
    place = weight + row.to(tl.int64)[:, None] * K + column[None, :]
    even: tl.constexpr = K == BLOCK and N % ROWS == 0
    if even:
        tile = tl.load(place)
    else:
        tile = tl.load(place, mask=inside[:, None] & within[None, :], other=0.0)
    if GATE:
        if even:
            up_tile = tl.load(place + N * K)
        else:
            up_tile = tl.load(place + N * K, mask=inside[:, None] & within[None, :], other=0.0)
    if BIAS:
        offset = tl.load(bias + row, mask=inside, other=0.0).to(tl.float32)
    if NORM:
        scale = tl.load(norm + column, mask=within, other=0.0).to(tl.float32)
    if PDL:
        gdc_wait()
    for m in tl.static_range(M):
        number = tl.load(x + m * x_stride + column, mask=within, other=0.0).to(tl.float32)
        if NORM:
            factor = 1.0 / tl.sqrt(tl.sum(number * number, axis=0) / K + eps)
            number = number * scale
        y = tl.sum(tile.to(tl.float32) * number[None, :], axis=1)
        if NORM:
            y = y * factor
        if BIAS:
            y = y + offset
        if GATE:
            up = tl.sum(up_tile.to(tl.float32) * number[None, :], axis=1)
            if NORM:
                up = up * factor
            y = y / (1.0 + tl.exp(-y)) * up
        if RESIDUAL:
            y = y + tl.load(residual + m * residual_stride + row, mask=inside).to(tl.float32)
        tl.store(out + m * out_stride + row, y.to(out.dtype.element_ty), mask=inside)


def fits(rows: int, width: int) -> bool:
    """Whether there are such products for `rows` rows of `x` that are `width` wide."""
    return 1 <= rows <= MAX_ROWS and width <= MAX_WIDTH


def choose_tile(width: int, gated: bool) -> Tile:
    """What was fastest for rows of the weight that are `width` wide (bfloat16, H200)."""
    if width <= 2048:
        return Tile(2 if gated else 4, 4)
    if width <= 4096:
        return Tile(2 if gated else 4, 4)
    if width <= 8192:
        return Tile(1 if gated else 2, 4)
    return Tile(1 if gated or width > 16_384 else 2, 8)


def fused_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    norm: Norm | None = None,
    residual: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    tile: Tile | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """As `sgc_kernels.fused_linear.fused_linear`, for what `fits`; sums are float32, and rounded
    once.

    Args:
        out: may be `residual`, not `x`, which other programs still read.
        pdl: start while the kernel before is running (compute capability 9.0 and later). The
            weights, `norm` and `bias` must not be written by the work in flight.
    """
    _check(x, weight)
    if out is None:
        out = torch.empty((x.shape[0], weight.shape[0]), dtype=x.dtype, device=x.device)
    tile = tile if tile is not None else choose_tile(x.shape[1], False)
    _launch(x, weight, bias, norm, residual, out, False, tile, pdl)
    return out


def fused_gated_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    norm: Norm | None = None,
    out: torch.Tensor | None = None,
    tile: Tile | None = None,
    pdl: bool = False,
) -> torch.Tensor:
    """As `sgc_kernels.fused_linear.fused_gated_linear`; see `fused_linear` above."""
    _check(x, weight)
    assert weight.shape[0] % 2 == 0, "the weight holds a gate and as many rows behind it"
    if out is None:
        out = torch.empty((x.shape[0], weight.shape[0] // 2), dtype=x.dtype, device=x.device)
    tile = tile if tile is not None else choose_tile(x.shape[1], True)
    _launch(x, weight, None, norm, None, out, True, tile, pdl)
    return out


def _check(x: torch.Tensor, weight: torch.Tensor) -> None:
    assert x.stride(1) == 1, "rows of x lie in one piece"
    assert weight.is_contiguous(), "rows of the weight lie behind each other"
    assert x.shape[1] == weight.shape[1], "x is as wide as the weight"
    assert fits(*x.shape), f"1 to {MAX_ROWS} rows of at most {MAX_WIDTH} numbers"


def _launch(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    norm: Norm | None,
    residual: torch.Tensor | None,
    out: torch.Tensor,
    gated: bool,
    tile: Tile,
    pdl: bool,
) -> None:
    for rows in (out, out if residual is None else residual):
        assert rows.shape == out.shape, "the residual has the shape of the result"
        assert rows.stride(1) == 1, "rows lie in one piece"
    options = {"launch_pdl": True} if pdl else {}
    _gemv[(triton.cdiv(out.shape[1], tile.rows),)](
        x,
        weight,
        bias,
        norm[0] if norm is not None else None,
        residual,
        out,
        x.stride(0),
        residual.stride(0) if residual is not None else 0,
        out.stride(0),
        norm[1] if norm is not None else 0.0,
        M=x.shape[0],
        N=out.shape[1],
        K=x.shape[1],
        ROWS=tile.rows,
        BLOCK=triton.next_power_of_2(x.shape[1]),
        GATE=gated,
        BIAS=bias is not None,
        NORM=norm is not None,
        RESIDUAL=residual is not None,
        PDL=pdl,
        num_warps=tile.warps,
        **options,
    )
