"""Products with the small operations around them, in plain torch: the norm of the input before,
residual or gate behind."""

from __future__ import annotations

import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.norm import rms_norm

Norm = tuple[torch.Tensor, float]  # weight [in], and eps: see `rms_norm`


def fused_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    norm: Norm | None = None,
    residual: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """`residual + norm(x) @ weight.T + bias`.

    Args:
        x: `[T, in]`.
        weight: `[out, in]`.
        bias: `[out]`.
        norm: RMS norm of `x` first.
        residual: `[T, out]`, not changed.
        out: `[T, out]` for the result, which is rounded to its dtype; else that of `x`.
    """
    y = torch.nn.functional.linear(x if norm is None else rms_norm(x, *norm), weight, bias)
    y = y if residual is None else residual + y
    return y if out is None else out.copy_(y)


def fused_gated_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    *,
    norm: Norm | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """`silu(gate) * up`, `[T, width]`, of the product with `weight` `[2 * width, in]`, whose first
    half gives the gate; the other arguments as in `fused_linear`."""
    y = silu_mul(torch.nn.functional.linear(x if norm is None else rms_norm(x, *norm), weight))
    return y if out is None else out.copy_(y)
