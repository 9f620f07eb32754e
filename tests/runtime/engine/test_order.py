"""In which order waiting requests are served, and that a long queue costs nothing."""

from __future__ import annotations

import random
import sys
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.engine.request import Request
from sgc_runtime.engine.turns import bound

ORDERS = ("dfs", "lpm", "fcfs", "random")


def prompts(groups: int, rows: int, shared: int = 40, own: int = 6) -> list[list[int]]:
    """Row 0 of each group, then row 1 of each group ...; the first token names the group."""
    rng = random.Random(7)
    heads = [[2 + g] + [rng.randrange(2, 50) for _ in range(shared - 1)] for g in range(groups)]
    return [[*h, *(rng.randrange(2, 50) for _ in range(own))] for _ in range(rows) for h in heads]


def test_depth_first_serves_each_group_at_once_and_computes_its_prefix_once() -> None:
    run = Simulation(130, max_running=2)
    for prompt in prompts(groups=5, rows=8):
        run.add(prompt)
    run.run()
    groups = [g for g, _ in groupby(int(r.tokens[0]) for r in run.started)]
    assert len(groups) == 5, "it left a group before its end"
    assert sum(run.computed) <= 5 * 40 + 40 * 6
    best = run.trie.optimal_hit_rate() or 0.0
    assert run.hit_rate > 0.99 * best  # own parts may begin alike by chance


def test_the_heaviest_group_comes_first() -> None:
    run = Simulation(200, max_running=1)
    small, big = prompts(groups=2, rows=9)[::2][:2], prompts(groups=2, rows=9)[1::2]
    for prompt in [*small, *big]:
        run.add(prompt)
    run.run()
    assert [int(r.tokens[0]) for r in run.started] == [3] * 9 + [2] * 2


def test_arrival_order_is_kept_by_fcfs() -> None:
    run = Simulation(300, order="fcfs", max_running=3)
    requests = [run.add(p) for p in prompts(groups=5, rows=5)]
    run.run()
    assert run.started == requests


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_longest_cached_prefix_comes_first(seed: int) -> None:
    rng = random.Random(seed)
    run = Simulation(90, order="lpm", max_running=1, share_min_tokens=1_000)
    roots = [[rng.randrange(2, 5) for _ in range(12)] for _ in range(3)]
    waiting = set()
    for _ in range(25):
        root = rng.choice(roots)[: rng.randrange(1, 12)]
        waiting.add(run.add([*root, *(rng.randrange(2, 5) for _ in range(rng.randrange(1, 8)))]))
    while waiting:
        matched = {r: run.cache.find(r.tokens[: r.num_matchable])[1] for r in waiting}
        before = len(run.started)
        run.step()
        for request in run.started[before:]:
            assert matched[request] == max(matched.values())
            waiting.remove(request)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("num_slots", [60, 130, 3000])
def test_no_order_changes_a_result(order: str, num_slots: int) -> None:
    run = Simulation(num_slots, order=order, prefill_tokens=16, reserve=0.0)
    asked = [(p, run.add(p, 1 + i % 9)) for i, p in enumerate(prompts(groups=4, rows=6))]
    while not run.scheduler.idle:
        run.step()
        check_laws(run)
    for prompt, request in asked:
        assert request.output.tolist() == plain_output(prompt, request.max_new)


# -- a long queue


def calls_of(step: Any) -> int:
    """Python and C functions called in a step."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return count


def most_calls(order: str, rows: int, groups: int) -> tuple[int, int]:
    """The largest number of function calls of a step with so many waiting, and of requests that
    it looked at."""
    run = Simulation(4000, order=order, max_running=8)
    rng = random.Random(3)
    heads = [[rng.randrange(2, 50) for _ in range(20)] for _ in range(groups)]
    for i in range(rows):
        run.add([*heads[i % groups], *(rng.randrange(2, 50) for _ in range(12))], instance=i)
    calls = looked_at = 0
    for _ in range(15):
        before = run.scheduler.admission.looked_at
        calls = max(calls, calls_of(run.step))
        looked_at = max(looked_at, run.scheduler.admission.looked_at - before)
    assert len(run.scheduler.waiting) > rows - 300
    return calls, looked_at


LONG = [(order, groups, 100_000) for order in ORDERS for groups in (1, 400)]


@pytest.mark.parametrize(
    ("order", "groups", "rows"),
    [
        ("lpm", 400, 20_000),
        ("dfs", 1, 10_000),
        ("dfs", 400, 10_000),
        ("fcfs", 400, 10_000),
        *(pytest.param(*case, marks=pytest.mark.long) for case in LONG),
    ],
)
def test_many_waiting_cost_a_step_no_more_than_a_thousand(
    order: str, groups: int, rows: int
) -> None:
    few, _ = most_calls(order, 1_000, groups)
    many, looked_at = most_calls(order, rows, groups)
    assert many < 1.5 * few + 1_000
    assert looked_at <= 512


# -- the bound


def adversary(order: str, turn_tokens: int, steps: int) -> tuple[Simulation, Request, int, int]:
    """Well-cached requests come all the time; one without a cached prefix waits among them.

    Also how many waited when it came, and the clock then.
    """
    run = Simulation(400, order=order, max_running=4, turn_tokens=turn_tokens, reserve=1.0)
    rng = random.Random(1)
    head = [rng.randrange(2, 30) for _ in range(60)]
    run.add(head)
    run.run()
    for _ in range(12):
        run.add([*head, *(rng.randrange(2, 50) for _ in range(8))], 3)
    victim = run.add([40 + i % 9 for i in range(150)], 2)
    older, since = len(run.scheduler.waiting) - 1, run.scheduler.admission.turns.clock
    for _ in range(steps):
        while len(run.scheduler.waiting) < 12:
            run.add([*head, *(rng.randrange(2, 50) for _ in range(8))], 3)
        run.step()
        if victim in run.started:
            break
    return run, victim, older, since


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("turn_tokens", [50, 400])
def test_nobody_waits_longer_than_the_bound(order: str, turn_tokens: int) -> None:
    run, victim, older, since = adversary(order, turn_tokens, 20_000)
    assert victim in run.started
    waited = run.scheduler.admission.turns.clock - since
    assert run.metrics.retractions == 0
    assert waited <= bound(older, 0, turn_tokens, 400)


@pytest.mark.parametrize("order", ["dfs", "lpm"])
def test_without_turns_it_would_starve(order: str) -> None:
    run, victim, _, _ = adversary(order, 10**9, 1_500)
    assert victim not in run.started
