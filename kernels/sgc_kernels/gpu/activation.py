"""The gated activation of the feed-forward part on a GPU."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.launcher import Form, Launcher, Prepared

_BLOCK = 1024


@triton.jit
def _silu_mul(
    gate_up: tl.tensor,
    out: tl.tensor,
    row_stride: tl.tensor,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < WIDTH
    place = gate_up + row * row_stride + column
    gate = tl.load(place, mask=inside, other=0.0)
    up = tl.load(place + WIDTH, mask=inside, other=0.0)
    number = gate.to(tl.float32)
    # Rounded before the product, as the reference does.
    turned = (number / (1.0 + tl.exp(-number))).to(gate.dtype).to(tl.float32)
    tl.store(out + row * WIDTH + column, (turned * up.to(tl.float32)).to(gate.dtype), mask=inside)


_launch = Launcher(_silu_mul)


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """As `sgc_kernels.activation.silu_mul`: `[T, 2 * width]` to `[T, width]`."""
    if gate_up.stride(-1) != 1:
        gate_up = gate_up.contiguous()
    rows, width = gate_up.shape[0], gate_up.shape[-1] // 2
    out = torch.empty((rows, width), dtype=gate_up.dtype, device=gate_up.device)
    form, blocks = _form(width)
    _launch((rows, blocks), (gate_up, out), (), (gate_up.stride(0),), form)
    return out


def prepared_silu_mul(gate_up: torch.Tensor, out: torch.Tensor) -> Prepared:
    """`silu_mul` into `out`, both contiguous, to be called as it is."""
    assert gate_up.is_contiguous(), "rows lie behind each other"
    assert out.is_contiguous(), "rows lie behind each other"
    rows, width = out.shape
    form, blocks = _form(width)
    return _launch.prepared(((rows, blocks), (gate_up, out), (), (2 * width,), form), ())


@functools.cache
def _form(width: int) -> tuple[Form, int]:
    """The kernel for rows of a width, and the programs of a row."""
    block = min(_BLOCK, triton.next_power_of_2(width))
    return Form(WIDTH=width, BLOCK=block, num_warps=4), -(-width // block)
