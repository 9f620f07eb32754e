"""Rotary position embedding in plain torch, the two halves of a head as real and imaginary part."""

from __future__ import annotations

import torch


def rotary_table(
    positions: torch.Tensor, inv_freq: torch.Tensor, scale: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and signed sines of a step, made once for all layers.

    Args:
        positions: `[T]` int64.
        inv_freq: `[head_dim / 2]` float32, radians a position.
        scale: factor on both tables (1 except for some rope variants).
        dtype: that of the heads that will be turned.

    Returns:
        Two tensors `[T, 1, head_dim]`; the sines of the first half are negative.
    """
    angles = positions.to(torch.float32)[:, None] * inv_freq
    cos, sin = angles.cos() * scale, angles.sin() * scale
    cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
    return cos.to(dtype)[:, None], sin.to(dtype)[:, None]


def apply_rotary(x: torch.Tensor, table: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Turn the heads `x` `[T, heads, head_dim]` by a `rotary_table`; a new tensor."""
    cos, sin = table
    swapped = x.roll(x.shape[-1] // 2, dims=-1)
    return torch.mul(x, cos).addcmul_(swapped, sin)
