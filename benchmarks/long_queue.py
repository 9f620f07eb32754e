"""Seconds that the scheduler takes for a step, with few and with many requests waiting.

python -m benchmarks.long_queue
"""

from __future__ import annotations

import random
from statistics import median
from time import perf_counter
from types import SimpleNamespace

import numpy as np

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.request import Outcome, Request
from sgc_runtime.engine.scheduler import Scheduler


def step_seconds(
    order: str, waiting: int, groups: int = 400, steps: int = 200
) -> tuple[float, float]:
    """The median step of `Scheduler.plan` and `computed` without a model, with `waiting` requests
    of 132 tokens that share 120 with others of their group and generate 4; and how many requests
    a step begins."""
    config = EngineConfig(kv_tokens=50_000, order=order)
    scheduler = Scheduler(PrefixCache(config.kv_tokens), config, Metrics())
    rng = random.Random(0)
    heads = [[rng.randrange(50_000) for _ in range(120)] for _ in range(groups)]
    for i in range(waiting):
        scheduler.add(
            _request([*heads[i % groups], *(rng.randrange(50_000) for _ in range(12))], i)
        )
    seconds = median(_step(scheduler) for _ in range(steps))
    return seconds, (waiting - len(scheduler.waiting)) / steps


def _request(prompt: list[int], instance: int) -> Request:
    row = SimpleNamespace(max_new=4)
    ids = np.array(prompt, np.int32)
    return Request(ids, on_done=_ignore, row=row, instance=instance, more_tokens=0)  # type: ignore[arg-type]


def _step(scheduler: Scheduler) -> float:
    begin = perf_counter()
    chunks = scheduler.plan()
    for chunk in chunks:
        scheduler.computed(chunk)
    seconds = perf_counter() - begin
    for chunk in chunks:
        request = chunk.request
        if chunk.end == request.num_target:
            request.push(7)
            if len(request.output) == 4:
                scheduler.drop(request, request.num_tokens - 1)
    return seconds


def _ignore(request: Request, outcome: Outcome) -> None:
    """The steps end requests by themselves."""


def main() -> None:
    """Print milliseconds a step for each order."""
    for order in ("lpm", "dfs", "fcfs"):
        for waiting in (10_000, 100_000):
            seconds, begun = step_seconds(order, waiting)
            print(
                f"{order:5} {waiting:7,} waiting: {1e3 * seconds:6.3f} ms a step, which begins "
                f"{begun:4.1f} requests",
                flush=True,
            )


if __name__ == "__main__":
    main()
