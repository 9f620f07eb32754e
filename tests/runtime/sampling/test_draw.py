"""The draw: its frequencies, what it never draws, and how it bears rounding."""

from __future__ import annotations

import pytest
import torch

from sgc_runtime.sampling.draw import draw, noise_count
from sgc_runtime.sampling.uniform import uniform


def noise(rows: int, vocab: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(uniform(range(seed, seed + rows), [0] * rows, noise_count(vocab)))


@pytest.mark.parametrize("vocab", [3, 256, 700])
def test_ids_come_as_often_as_their_weights_say(vocab: int) -> None:
    rows = 40_000
    weights = torch.zeros(vocab)
    places = [0, 1, vocab // 2, vocab - 1]
    weights[places] += torch.tensor([0.1, 0.2, 1.7, 2.0])
    found = draw(weights.expand(rows, -1), noise(rows, vocab))
    for place in set(places):
        p = float(weights[place] / weights.sum())
        share = float((found == place).float().mean())
        assert abs(share - p) < 5 * (p * (1 - p) / rows) ** 0.5, place
    assert set(found.tolist()) == set(places)


def test_ids_of_one_weight_come_equally_often() -> None:
    rows, vocab = 4000, 1000
    found = draw(torch.ones(1, 1).expand(rows, vocab), noise(rows, vocab, seed=9))
    counts = found.bincount(minlength=vocab).double()
    chi = float(((counts - rows / vocab) ** 2 / (rows / vocab)).sum())
    assert abs(chi - vocab) < 5 * (2 * vocab) ** 0.5


def test_the_smallest_noise_draws_no_weightless_id() -> None:
    weights = torch.zeros(2, 600)
    weights[:, 555] = 1e-30
    u = torch.zeros(2, noise_count(600), dtype=torch.float64)
    u[1] = 1 - 2**-53
    assert draw(weights, u).tolist() == [555, 555]


def test_rounding_of_the_logits_changes_no_draw() -> None:
    # Many unlikely ids together likely: a running sum would move over their borders.
    rows, vocab = 150, 20_000
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(rows, vocab, generator=generator)
    rounded = logits + 1e-5 * torch.randn(rows, vocab, generator=generator)
    u = noise(rows, vocab)
    assert torch.equal(draw(logits.softmax(-1), u), draw(rounded.softmax(-1), u))


def test_rows_of_nan_give_some_id() -> None:
    weights = torch.full((1, 300), torch.nan)
    assert 0 <= int(draw(weights, noise(1, 300))) < 300
