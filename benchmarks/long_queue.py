"""Seconds that the scheduler takes for a step, with few and with many requests waiting.

    python -m benchmarks.long_queue

The scheduler alone, without a model, in processor time: `plan`, `computed`, `drop`. Requests of 132
tokens share 120 with 249 others and generate 4, one to seven of them, so that they do not end
together; as many come as begin, so that the queue stays as long as it is. All lengths of the queue
see the same requests, so a step does the same work: it begins about 32 requests, decodes 96 and
ends 32.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import count, islice
from statistics import fmean, median, quantiles
from time import thread_time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common.conditions import conditions, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:
    from sgc_runtime.engine.request import Outcome, Request
    from sgc_runtime.engine.scheduler import Scheduler

ORDERS = ("lpm", "dfs", "fcfs")
QUEUES = (100, 1_000, 10_000, 100_000)
SHARED, OWN = 120, 12  # tokens
LENGTHS = 1, 7  # of what a request generates; 4 on average
GROUP = 250  # requests that share
GOAL_MS = 1.0  # a step beside the longest queue
SETTLED = 1.25  # that step over one beside the shortest queue, at most


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(1)
    file = ResultFile(args.output, what=__doc__ or "", conditions=conditions(1), steps=args.steps)
    for order in ORDERS:
        found: dict[str, Any] = {str(n): beside(order, n, args.steps) for n in args.queues}
        first, last = (found[str(n)]["median_ms"] for n in (args.queues[0], args.queues[-1]))
        found |= {
            "ratio": round(last / first, 3),
            "goal": f"below {GOAL_MS} ms, ratio below {SETTLED}",
            "met": last < GOAL_MS and last / first < SETTLED,
        }
        file.add(order, found)
        print(f"{order}: ratio {found['ratio']}, {'met' if found['met'] else 'MISSED'}", flush=True)


def beside(order: str, waiting: int, steps: int) -> dict[str, float]:
    """Milliseconds of `steps` steps beside so many waiting requests, once the pool is full."""
    from sgc_runtime.cache.prefix_cache import PrefixCache
    from sgc_runtime.engine.config import EngineConfig
    from sgc_runtime.engine.metrics import Metrics
    from sgc_runtime.engine.scheduler import Scheduler

    config = EngineConfig(kv_tokens=20_000, order=order)
    scheduler = Scheduler(PrefixCache(config.kv_tokens), config, Metrics())
    coming = _requests()
    begin = thread_time()
    _fill(scheduler, coming, waiting)
    adding = thread_time() - begin
    times, begun = [], 0
    warm_up = steps // 4
    for i in range(warm_up + steps):
        before = scheduler.admission.admitted
        seconds = _step(scheduler)
        if i >= warm_up:
            times.append(1e3 * seconds)
            begun += scheduler.admission.admitted - before
        _fill(scheduler, coming, waiting)
    result = {
        "median_ms": round(median(times), 4),
        "mean_ms": round(fmean(times), 4),
        "p10_ms": round(quantiles(times, n=10)[0], 4),
        "p99_ms": round(quantiles(times, n=100)[-1], 4),
        "begun_a_step": round(begun / steps, 2),
        "add_us": round(1e6 * adding / waiting, 2),
    }
    print(
        f"{order:5} {waiting:7,} waiting: {result['median_ms']:6.3f} ms a step (mean "
        f"{result['mean_ms']:.3f}, 10 %: {result['p10_ms']:.3f}, 99 %: {result['p99_ms']:.3f}), "
        "which begins "
        f"{result['begun_a_step']:4.1f} requests; {result['add_us']:.1f} us to add one",
        flush=True,
    )
    return result


def _requests() -> Iterator[Request]:
    rng = np.random.default_rng(0)
    for number in count():
        if number % GROUP == 0:
            head = rng.integers(0, 50_000, SHARED)
        length = int(rng.integers(LENGTHS[0], LENGTHS[1] + 1))
        yield _request([*head, *rng.integers(0, 50_000, OWN)], length, number)


def _request(prompt: list[int], length: int, instance: int) -> Request:
    from sgc_runtime.engine.request import Request

    row = SimpleNamespace(max_new=length)
    ids = np.array(prompt, np.int32)
    return Request(ids, on_done=_ignore, row=row, instance=instance, more_tokens=0)  # type: ignore[arg-type]


def _fill(scheduler: Scheduler, coming: Iterator[Request], waiting: int) -> None:
    for request in islice(coming, max(0, waiting - len(scheduler.waiting))):
        scheduler.add(request)


def _step(scheduler: Scheduler) -> float:
    begin = thread_time()
    chunks = scheduler.plan()
    for chunk in chunks:
        scheduler.computed(chunk)
    seconds = thread_time() - begin
    ended = [c.request for c in chunks if c.end == c.request.num_target and _sample(c.request)]
    begin = thread_time()
    for request in ended:
        scheduler.drop(request, request.num_tokens - 1)
    return seconds + thread_time() - begin


def _sample(request: Request) -> bool:
    """Whether that was its last token."""
    request.push(7)
    return len(request.output) == request.max_new


def _ignore(request: Request, outcome: Outcome) -> None:
    """The steps end requests by themselves."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--queues", default=",".join(map(str, QUEUES)))
    parser.add_argument("--output", type=result_path, default=default_path("long_queue"))
    args = parser.parse_args(argv)
    args.queues = [int(n) for n in args.queues.split(",")]
    return args


if __name__ == "__main__":
    main()
