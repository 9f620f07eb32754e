"""The two-step draw against one running sum in float64."""

from __future__ import annotations

import torch

from sgc_runtime.sampling.draw import draw


def test_equals_one_running_sum() -> None:
    generator = torch.Generator().manual_seed(0)
    for vocab in (3, 256, 700, 5000):
        weights = torch.rand(200, vocab, generator=generator) ** 8
        weights[torch.rand(200, vocab, generator=generator) < 0.5] = 0.0
        weights[:, vocab // 2] = 1.0
        u = torch.rand(200, generator=generator, dtype=torch.float64)
        u[:2] = torch.tensor([0.0, 1 - 2**-53])
        found = draw(weights, u)
        running = weights.double().cumsum(-1)
        target = u[:, None] * running[:, -1:]
        assert bool((weights.gather(1, found[:, None]) > 0).all())
        # What comes out is right but for the float32 rounding of a block's sum.
        above = running.gather(1, found[:, None]) >= target * (1 - 1e-6)
        below = (running - weights.double()).gather(1, found[:, None]) <= target * (1 + 1e-6)
        assert bool(above.all())
        assert bool(below.all())


def test_rows_of_nan_give_some_id() -> None:
    weights = torch.full((1, 300), torch.nan)
    assert 0 <= int(draw(weights, torch.zeros(1, dtype=torch.float64))) < 300
