"""Requests begin, and rows decode, only into states from which all can end."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.engine.safety import is_safe, most_that_may_go


def is_safe_in_some_order(available: int, needs: list[tuple[int, int]]) -> bool:
    """By trying all orders."""
    for order in permutations(needs):
        left, ends = available, True
        for need, holds in order:
            ends = ends and need <= left
            left += holds
        if ends:
            return True
    return not needs


@pytest.mark.parametrize("seed", range(30))
def test_safe_is_what_some_order_ends(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        needs = [(rng.randrange(9), rng.randrange(6)) for _ in range(rng.randrange(6))]
        available = rng.randrange(12)
        assert is_safe(available, needs) == is_safe_in_some_order(available, needs)


@pytest.mark.parametrize("seed", range(30))
def test_as_many_go_as_can(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        needs = [(rng.randrange(1, 9), rng.randrange(6)) for _ in range(rng.randrange(1, 7))]
        needs.sort()
        available = rng.randrange(12)
        if not is_safe(available, needs):
            continue
        wanted = [1] * rng.randrange(1, len(needs) + 1)
        may = most_that_may_go(available, needs, wanted)
        assert may >= 1, "the one that needs least can always go on"

        def after(count: int, needs: list[tuple[int, int]] = needs) -> list[tuple[int, int]]:
            return [(n - (i < count), h + (i < count)) for i, (n, h) in enumerate(needs)]

        best = max(
            k for k in range(len(wanted) + 1) if k <= available and is_safe(available - k, after(k))
        )
        assert may == best


def crowd(hints: bool, bounds: bool = True) -> Simulation:
    """Gens that use all that they may, in a pool that holds a few of them; with `reserve` 0 they
    begin as if they made nothing."""
    run = Simulation(100, hints=hints, reserve=0.0, claims=0.0)
    requests = [
        run.add([2 + i, 3, 4, 5], 20, instance=i, most=None if bounds else 2) for i in range(16)
    ]
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
    for request in requests:
        assert request.output.tolist() == plain_output(request.prompt.tolist(), 20)
    return run


def test_nothing_is_retracted_where_bounds_hold() -> None:
    without, with_them = crowd(False), crowd(True)
    assert without.metrics.retractions > 5
    assert with_them.metrics.retractions == 0
    assert sum(with_them.computed) < sum(without.computed)


def test_a_bound_that_does_not_hold_costs_time_only() -> None:
    assert crowd(True, bounds=False).metrics.retractions > 0


def test_rows_that_pause_go_on_before_long() -> None:
    """In no step all of them pause."""
    run = crowd(True)
    assert all(run.computed)
