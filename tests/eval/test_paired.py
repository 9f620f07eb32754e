"""Paired differences against enumeration of every outcome, and against what is published."""

from __future__ import annotations

import itertools
import math

import pytest

from sgc.eval.paired import binary_interval, mcnemar, paired, paired_bootstrap


@pytest.mark.parametrize("better", range(6))
@pytest.mark.parametrize("worse", range(6))
def test_the_exact_p_value_counts_all_signs(better: int, worse: int) -> None:
    signs = list(itertools.product((1, -1), repeat=better + worse))
    as_far = sum(abs(sum(found)) >= abs(better - worse) for found in signs)
    assert mcnemar(better, worse) == pytest.approx(as_far / len(signs))


def test_a_published_table() -> None:
    """Approval of a prime minister asked twice (Agresti, Categorical Data Analysis, table 10.1):
    150 of 1,600 changed to no, 86 to yes."""
    assert mcnemar(86, 150) == pytest.approx(3.7e-5, rel=0.02)
    low, high = binary_interval(1600, 86, 150)
    assert (low, high) == (pytest.approx(-0.0587, abs=2e-4), pytest.approx(-0.0213, abs=2e-4))


def test_many_pairs_that_differ_overflow_nothing() -> None:
    assert mcnemar(6000, 6000) == 1.0
    assert mcnemar(9000, 3000) < 1e-300


def test_no_pair_that_differs_leaves_room_for_chance() -> None:
    found = paired([1, 0, 1], [1, 0, 1])
    assert (found.p_value, found.difference) == (1.0, 0)
    assert found.interval[0] < 0 < found.interval[1]


def test_right_and_wrong_answers() -> None:
    found = paired([1, 1, 0, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1, 1, 0])
    assert (found.rows, found.better, found.worse) == (8, 5, 1)
    assert (found.first, found.second, found.difference) == (0.25, 0.75, 0.5)
    assert (found.method, found.p_value) == ("McNemar exact", 0.21875)


def test_the_bootstrap_agrees_with_a_t_interval_and_with_itself() -> None:
    differences = [math.sin(n) / 4 + 0.05 for n in range(400)]
    mean = sum(differences) / 400
    error = math.sqrt(sum((d - mean) ** 2 for d in differences) / 399 / 400)
    p_value, (low, high) = paired_bootstrap(differences, seed=3)
    assert low == pytest.approx(mean - 1.96 * error, abs=error / 5)
    assert high == pytest.approx(mean + 1.96 * error, abs=error / 5)
    assert p_value < 0.001
    assert paired_bootstrap(differences, seed=3) == (p_value, (low, high))


def test_a_difference_that_chance_makes_is_not_significant() -> None:
    first = [0.5 + math.sin(n) / 3 for n in range(200)]
    found = paired(first, [0.5 + math.sin(n * n) / 3 for n in range(200)])
    assert found.method == "paired bootstrap"
    assert found.p_value > 0.05
    assert found.interval[0] < 0 < found.interval[1]


def test_equal_scores_have_no_difference() -> None:
    found = paired([0.25, 0.5], [0.25, 0.5])
    assert (found.p_value, found.interval) == (1.0, (0.0, 0.0))


def test_scores_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="1 and 2 scores are no pairs"):
        paired([1], [1, 0])
