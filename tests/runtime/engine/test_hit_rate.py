"""How near the hit rate comes to the best one with a pool of four times the longest request."""

from __future__ import annotations

import random

import pytest
from support.scheduling import Simulation
from support.workloads import WORKLOADS


def run_workload(name: str, seed: int, **config: object) -> Simulation:
    rng = random.Random(seed)
    prompts = WORKLOADS[name](rng)
    lengths = [1 if name == "exam" else rng.randrange(8, 40) for _ in prompts]
    longest = max(len(p) + n for p, n in zip(prompts, lengths, strict=True))
    run = Simulation(4 * longest, **config)
    for i, (prompt, max_new) in enumerate(zip(prompts, lengths, strict=True)):
        run.add(prompt, max_new, instance=i, more=0)
    run.run()
    return run


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("order", ["dfs", "lpm"])
def test_cache_aware_orders_come_near_the_best_hit_rate(name: str, order: str) -> None:
    run = run_workload(name, seed=1, order=order)
    best = run.trie.optimal_hit_rate()
    assert best is not None
    assert 0.97 * best <= run.hit_rate <= best


def test_first_come_first_served_does_not() -> None:
    run = run_workload("exam", seed=1, order="fcfs")
    assert run.hit_rate < 0.8 * (run.trie.optimal_hit_rate() or 0.0)
