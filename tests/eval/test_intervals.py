"""Confidence intervals beside worked values, and how often they hold the truth."""

from __future__ import annotations

import random

import pytest

from sgc.eval.intervals import bootstrap, interval, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [  # Newcombe (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(
    successes: int, trials: int, low: float, high: float
) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_a_bootstrap_repeats_by_seed_and_is_about_normal() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(400)]
    assert bootstrap(values, 1) == bootstrap(values, 1)
    assert bootstrap(values, 1) != bootstrap(values, 2)
    mean, spread = sum(values) / 400, 1.96 * (1 / 12 / 400) ** 0.5
    assert bootstrap(values) == pytest.approx((mean - spread, mean + spread), abs=0.005)


def test_the_kind_of_scores_picks_the_interval() -> None:
    assert interval([1, 0, 1, 1.0]) == wilson(3, 4)
    assert interval([1, 0, 0.5], seed=4) == bootstrap([1, 0, 0.5], 4)
    assert interval([]) == (0.0, 1.0)
    assert bootstrap([]) == (0.0, 1.0)
