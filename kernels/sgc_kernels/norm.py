"""RMS normalisation in plain torch."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """`x / rms(x) * weight` along the last axis.

    Statistics and the division are float32 whatever `x` is; the quotient is rounded to `x.dtype`
    before the weight is applied, as the models were trained.

    Args:
        x: `[..., width]`.
        weight: `[width]`, dtype of `x`.
        eps: added to the mean square.
    """
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    factor = torch.rsqrt(norm.square_().div_(x.shape[-1]).add_(eps))
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    return torch.mul(x, factor, out=out).mul_(weight)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """Add `x` to `residual` in place and give the normalised sum (see `rms_norm`)."""
    return rms_norm(residual.add_(x), weight, eps)
