"""Masks over logits."""

from __future__ import annotations

import math

import torch

from sgc_kernels.masks.select import MINUS_INFINITY, compiled_masks


def apply_token_mask(
    logits: torch.Tensor, masks: torch.Tensor, rows: torch.Tensor | None = None
) -> None:
    """Make the logits of disallowed tokens -infinity, in place.

    Args:
        logits: [batch, vocab], float32, bfloat16 or float16. Columns behind the mask's last bit
            are disallowed.
        masks: int32 [n, words]: bit t % 32 of word t // 32 is 1 where token t is allowed.
        rows: int64 [n]: the row of `logits` that each mask is for; None: row i for mask i.
    """
    code = compiled_masks() if logits.device.type == "cpu" else None
    fits = logits.dtype in MINUS_INFINITY and logits.stride(1) == masks.stride(1) == 1
    if code is None or not fits:
        reference(logits, masks, rows)
        return
    numbers = torch.arange(len(masks)) if rows is None else rows.contiguous()
    columns = 32 * masks.shape[1]
    if columns < logits.shape[1]:
        logits[numbers, columns:] = -math.inf
    code.apply(logits[:, :columns], masks, numbers)


def reference(logits: torch.Tensor, masks: torch.Tensor, rows: torch.Tensor | None = None) -> None:
    """`apply_token_mask` in plain torch, for any device."""
    shifts = torch.arange(32, dtype=torch.int32, device=masks.device)
    allowed = ((masks.unsqueeze(-1) >> shifts) & 1).bool().flatten(1)[:, : logits.shape[1]]
    behind = logits.shape[1] - allowed.shape[1]
    allowed = torch.nn.functional.pad(allowed, (0, max(0, behind)))
    numbers = torch.arange(len(masks), device=logits.device) if rows is None else rows
    logits[numbers] = logits[numbers].masked_fill(~allowed, -math.inf)
