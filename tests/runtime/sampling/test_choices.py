"""The three ways to decide between choices, on figures worked out by hand."""

from __future__ import annotations

import pytest

from sgc_runtime.sampling.choices import ScoredChoice, decide


def choice(
    *logprobs: float, ids: tuple[int, ...] = (), alone: tuple[float, ...] = ()
) -> ScoredChoice:
    return ScoredChoice(ids or tuple(range(len(logprobs))), logprobs, alone)


def test_token_length_normalized_takes_the_best_mean() -> None:
    best, scores = decide("token_length_normalized", [choice(-3.0), choice(-1.0, -2.0, -1.5)])
    assert best == 1
    assert scores == [-3.0, -1.5]


def test_the_first_of_equals_wins() -> None:
    for method in ("token_length_normalized", "greedy_token_selection"):
        assert decide(method, [choice(-2.0), choice(-1.0, -3.0), choice(-2.0)])[0] in (0, 1)
    assert decide("token_length_normalized", [choice(-2.0), choice(-1.0, -3.0)])[0] == 0


def test_greedy_token_selection_goes_position_by_position() -> None:
    long_and_sure_first = choice(-0.1, -9.0)
    best, scores = decide("greedy_token_selection", [choice(-0.5, -0.5), long_and_sure_first])
    assert best == 1
    assert scores == pytest.approx([-0.5, -4.55])


def test_greedy_token_selection_pads_with_the_mean() -> None:
    # Equal at the first position; then -1 (the short one's mean) against -0.5.
    short, long = choice(-1.0), choice(-1.0, -0.5)
    assert decide("greedy_token_selection", [short, long])[0] == 1
    assert decide("greedy_token_selection", [short, choice(-1.0, -1.5)])[0] == 0


def test_unconditional_likelihood_is_taken_off() -> None:
    common = choice(-1.0, -1.0, alone=(0.0, -0.2))
    rare = choice(-2.0, -2.0, alone=(0.0, -3.8))
    best, scores = decide("unconditional_likelihood_normalized", [common, rare])
    assert scores == pytest.approx([-0.9, -0.1])
    assert best == 1
