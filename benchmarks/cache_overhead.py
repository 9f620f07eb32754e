"""What radix tree and queue cost where nothing is shared, and whether a long queue slows a step.

    python -m benchmarks.cache_overhead --data DIR

`unshared`: 32 chats at once on the real model, with the cache and with `cache=False`. The cost is
given as added wall time (the paper's definition) of steps that both take in turn; of the same
steps beside a model that computes nothing, over the run time with the real one, which leaves out
the noise of the products and is judged; and of whole runs. Besides as the time spent inside the
functions of tree, slots and queue, summed by a clock around each, part of which is spent without
the cache too. `queue`: the time of one step of the engine's core
over a model that computes nothing, with 100, 10,000 and 100,000 requests waiting.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.sgc_engine import Job, SgcEngine
    from benchmarks.common.stopwatch import Stopwatch

GOAL = 0.003  # of the run time
QUEUES = (100, 10_000, 100_000)
PROMPT = 32  # tokens of each waiting request
SETTLED = 1.5  # a step beside the longest queue over one beside the shortest, at most


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    file = ResultFile(
        args.output, what=__doc__, conditions=conditions(args.threads), limit=args.limit
    )
    if "unshared" in args.parts:
        file.add("unshared", unshared(args))
    if "queue" in args.parts:
        file.add("queue", queue_steps(args.limit))


def unshared(args: argparse.Namespace) -> dict[str, Any]:
    """Wall time with and without the cache in pairs, and the functions' own time."""
    from benchmarks.common.data import Data
    from benchmarks.common.lockstep import Lockstep, added_share, seconds_without
    from benchmarks.common.sgc_engine import Job, SgcEngine
    from benchmarks.common.timing import interleave, mean_interval
    from benchmarks.common.workloads import chat

    data = Data(args.data)
    number = 32 if args.limit is None else max(16, args.limit)
    length = 64 if args.limit is None else 4 * args.limit
    job = Job(chat, [{"text": text, "length": length} for text in data.chats(number)])
    engines = {
        "cache": SgcEngine(args.model, kv_tokens=16_000),
        "no cache": SgcEngine(args.model, kv_tokens=16_000, cache=False),
    }
    prompts = [call.prompt for call in engines["cache"].record(job).calls]
    steps = Lockstep(engines["cache"], prompts, length)
    steps.run()
    runs = [steps.run() for _ in range(args.repetitions)]
    run_s = seconds_without(runs)
    steps = Lockstep(engines["cache"], prompts, length, silent=True)
    steps.run()
    silent = added_share([steps.run() for _ in range(4 * args.repetitions)], run_s)
    engines["no cache"].run(job)
    samples = interleave(
        {name: partial(engine.time, job) for name, engine in engines.items()},
        max(2, args.repetitions // 2),
    )
    added = [
        a / b - 1
        for a, b in zip(samples["cache"].seconds, samples["no cache"].seconds, strict=True)
    ]
    inside = {name: _inside(engine, job) for name, engine in engines.items()}
    for engine in engines.values():
        engine.backend.close()
    more = inside["cache"]["seconds"] - inside["no cache"]["seconds"]
    share = inside["cache"]["seconds"] / samples["cache"].median
    found = {
        "work": f"{number} chats x {length} new tokens, all at once",
        "data": data.source,
        "times": {name: s.to_dict() for name, s in samples.items()},
        "run_seconds_without_cache": run_s,
        "added_wall_share_of_steps": (added_steps := added_share(runs, run_s)),
        "added_wall_share_of_steps_beside_a_silent_model": silent,
        "added_wall_share_of_runs": mean_interval(added),
        "inside_functions": inside,
        "inside_share_of_run_time": share,
        "inside_share_beyond_no_cache": more / samples["cache"].median,
        "goal": GOAL,
        "met": silent["high"] < GOAL and added_steps["low"] < GOAL,
    }
    wall = found["added_wall_share_of_runs"]
    print(
        f"unshared, {found['work']}: added wall time of steps {_percent(added_steps['share'])} "
        f"(95 %: {_percent(added_steps['low'])} to {_percent(added_steps['high'])}), beside a "
        f"silent model {_percent(silent['share'])} ({_percent(silent['low'])} to "
        f"{_percent(silent['high'])}), of runs "
        f"{_percent(wall['mean'])} ({_percent(wall['low'])} to {_percent(wall['high'])}); inside "
        f"tree and queue {_percent(share)}, {_percent(more / samples['cache'].median)} more than "
        f"without cache; goal below {_percent(GOAL)}: {'met' if found['met'] else 'MISSED'}",
        flush=True,
    )
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


def _inside(engine: SgcEngine, job: Job) -> dict[str, Any]:
    """Seconds in the functions of tree, slots and queue in one run, all and one by one."""
    from benchmarks.common.stopwatch import Stopwatch

    watch = Stopwatch()
    _watch_cache(watch)
    try:
        engine.run(job)
    finally:
        watch.undo()
    total = watch.seconds.pop("all")
    return {
        "seconds": total,
        "calls": sum(count for name, count in watch.calls.items() if name != "all"),
        "by_function": {name: round(s, 6) for name, s in watch.seconds.most_common()},
    }


def _watch_cache(watch: Stopwatch) -> None:
    from sgc_runtime.cache.prefix_cache import PrefixCache
    from sgc_runtime.engine.admission import Admission
    from sgc_runtime.engine.queue import WaitingQueue

    watched = {
        PrefixCache: (
            *("find", "match", "climb", "path_slots", "lock", "unlock"),
            *("alloc", "release", "store", "prune"),
        ),
        WaitingQueue: ("add", "remove", "walk", "start", "add_returned"),
        Admission: ("admit",),
    }
    for owner, names in watched.items():
        for name in names:
            watch.class_method(owner, name, f"{owner.__name__}.{name}")
            watch.class_method(owner, name, "all")


def queue_steps(limit: int | None) -> dict[str, Any]:
    """Median time of a step beside queues of several lengths, for two kinds of prompts."""
    queues = QUEUES if limit is None else tuple(100 * limit**i for i in range(len(QUEUES)))
    steps = 200 if limit is None else 20 * limit
    found: dict[str, Any] = {"steps": steps, "prompt_tokens": PROMPT}
    for kind in ("unshared", "shared"):
        found[kind] = {str(n): _steps_beside(n, kind == "shared", steps) for n in queues}
        first, last = (found[kind][str(n)]["median_us"] for n in (queues[0], queues[-1]))
        found[f"{kind}_ratio"] = last / first
        print(
            f"queue, {kind} prompts: "
            + ", ".join(f"{n} waiting {found[kind][str(n)]['median_us']:.0f} us" for n in queues)
            + f" a step (ratio {last / first:.2f})",
            flush=True,
        )
    found["goal"] = f"ratio below {SETTLED}"
    found["met"] = all(found[f"{kind}_ratio"] < SETTLED for kind in ("unshared", "shared"))
    return found


def _steps_beside(waiting: int, shared: bool, steps: int) -> dict[str, float]:
    """Steps that admit, decode and end requests while `waiting` others wait, always as many."""
    from benchmarks.common.bare_engine import make_core, make_request

    core = make_core(kv_tokens=8_000, max_running=32, prefill_tokens=4 * PROMPT)
    requests = (make_request(_prompt(i, shared), 4, i) for i in count())
    begin = time.perf_counter()
    core.add(*islice(requests, waiting))
    adding = time.perf_counter() - begin
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        core.step()
        times.append(1e6 * (time.perf_counter() - begin))
        core.add(*islice(requests, waiting - len(core.scheduler.waiting)))
    settled = times[len(times) // 4 :]
    return {
        "median_us": statistics.median(settled),
        "p95_us": statistics.quantiles(settled, n=20)[-1],
        "add_us": 1e6 * adding / waiting,
        "still_waiting": len(core.scheduler.waiting),
    }


def _prompt(number: int, shared: bool) -> list[int]:
    """Ids that spell `number` first (nothing is shared), or behind 24 ids of a group of 50."""
    digits = [6 + (number >> (5 * k)) % 32 for k in range(4)]
    if not shared:
        return digits + [40] * (PROMPT - 4)
    group = number // 50
    head = [6 + (group >> (5 * k)) % 32 for k in range(3)]
    return head + [41] * (PROMPT - 7) + digits


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="a smaller run")
    parser.add_argument("--parts", default="unshared,queue")
    parser.add_argument("--repetitions", type=int, default=10, help="pairs of runs")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=Path, default=default_path("cache_overhead"))
    args = parser.parse_args(argv)
    args.parts = args.parts.split(",")
    return args


if __name__ == "__main__":
    main()
