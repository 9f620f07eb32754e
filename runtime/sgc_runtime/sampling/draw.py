"""Draws one id a row by the inverse distribution function, over the ids in order."""

from __future__ import annotations

import torch
from torch.nn.functional import pad

_BLOCK = 256


def draw(weights: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The first id at which the running sum of `weights` exceeds `u` times the whole.

    Found in two steps, a block of ids and an id in it: summing up all ids of a row one after
    the other took 16 ms of the 22 ms that a batch of 32 x 49,152 needed.

    Args:
        weights: `[rows, vocab]` float32, not negative, some positive in each row.
        u: `[rows]` float64 in [0, 1).
    """
    rows, vocab = weights.shape
    if vocab % _BLOCK:
        weights = pad(weights, (0, _BLOCK - vocab % _BLOCK))
    blocks = weights.view(rows, -1, _BLOCK)
    sums = blocks.sum(-1).to(torch.float64)
    until = sums.cumsum(-1)
    target = u[:, None] * until[:, -1:]
    block = _first_above(until, target)
    before = until.gather(-1, block) - sums.gather(-1, block)
    inside = blocks[torch.arange(rows, device=weights.device), block[:, 0]]
    within = _first_above(inside.to(torch.float64).cumsum(-1), target - before)
    return (block * _BLOCK + within)[:, 0].clamp(max=vocab - 1)


def _first_above(running: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`[rows, 1]`: the first place where `running` exceeds `target`; where rounding leaves none,
    the last place that added anything; the last place of a row of NaNs."""
    found = torch.searchsorted(running, target, right=True)
    last = torch.searchsorted(running, running[:, -1:].contiguous())
    return torch.minimum(found, last).clamp(max=running.shape[-1] - 1)
