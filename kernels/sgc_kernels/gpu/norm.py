"""RMS normalisation on a GPU, alone and after adding to the residual.

A program holds a few rows in registers: one read and one write of everything. Statistics are
float32; what is rounded when is as in the reference, `sgc_kernels.norm`.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.launcher import Arguments, Form, Launcher, Prepared

_TILE = 1024  # numbers of a program, where a row has fewer


@triton.jit(do_not_specialize=["rows"])
def _norm(
    x: tl.tensor,
    residual: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    eps: tl.tensor,
    x_inner: tl.tensor,
    x_outer_stride: tl.tensor,
    x_inner_stride: tl.tensor,
    residual_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ROWS: tl.constexpr,
    ADD: tl.constexpr,
) -> None:
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    column = tl.arange(0, BLOCK)
    within = column < WIDTH
    inside = (row < rows)[:, None] & within[None, :]
    start = (row // x_inner) * x_outer_stride + (row % x_inner) * x_inner_stride
    value = tl.load(x + start[:, None] + column[None, :], mask=inside, other=0.0)
    if ADD:
        place = residual + row[:, None] * residual_stride + column[None, :]
        before = tl.load(place, mask=inside, other=0.0)
        value = (value.to(tl.float32) + before.to(tl.float32)).to(value.dtype)
        tl.store(place, value, mask=inside)
    number = value.to(tl.float32)
    mean = tl.sum(number * number, axis=1) / WIDTH
    factor = 1.0 / tl.sqrt(mean + eps)
    scale = tl.load(weight + column, mask=within, other=0.0).to(tl.float32)
    quotient = (number * factor[:, None]).to(value.dtype).to(tl.float32)
    result = (quotient * scale[None, :]).to(value.dtype)
    tl.store(out + row[:, None] * WIDTH + column[None, :], result, mask=inside)


_launch_norm = Launcher(_norm)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """As `sgc_kernels.norm.rms_norm`; a slice of the heads of `[T, heads, head_dim]` is read where
    it lies."""
    return _launch(x, None, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """As `sgc_kernels.norm.add_rms_norm`: `residual`, `[T, width]`, is updated in place."""
    _check(x, residual)
    return _launch(x, residual, weight, eps)


def prepared_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, out: torch.Tensor
) -> Prepared:
    """`add_rms_norm` into `out`, to be called with weights like `weight`."""
    _check(x, residual)
    assert x.stride(1) == 1, "rows lie in one piece"
    assert out.is_contiguous(), "rows lie behind each other"
    return _launch_norm.prepared(_arguments(x, residual, weight, eps, out), (2,))


def _check(x: torch.Tensor, residual: torch.Tensor) -> None:
    assert residual.dim() == 2, "the residual is [T, width]"
    assert residual.stride(1) == 1, "its rows lie in one piece"
    assert x.shape == residual.shape, "the residual has the shape of what is added to it"


def _launch(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    if x.stride(-1) != 1 or x.dim() > 3:
        x = x.contiguous()
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    _launch_norm(*_arguments(x, residual, weight, eps, out))
    return out


def _arguments(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    eps: float,
    out: torch.Tensor,
) -> Arguments:
    shape = x.shape
    width, by_head = shape[-1], len(shape) == 3
    rows = x.numel() // width
    form, at_once = _form(width, residual is not None)
    strides = (
        shape[1] if by_head else 1,
        x.stride(0) if len(shape) > 1 else width,
        x.stride(1) if by_head else 0,
        residual.stride(0) if residual is not None else 0,
    )
    grid = (-(-rows // at_once), 1)
    return grid, (x, residual, weight, out), (rows, eps), strides, form


@functools.cache
def _form(width: int, add: bool) -> tuple[Form, int]:
    """The kernel for rows of a width, and how many of them a program takes."""
    block = triton.next_power_of_2(width)
    at_once = max(1, _TILE // block)
    warps = 4 if block * at_once <= 2048 else 8 if block <= 8192 else 16
    return Form(WIDTH=width, BLOCK=block, ROWS=at_once, ADD=add, num_warps=warps), at_once
