"""What radix tree and queue cost where nothing is shared, and whether a long queue slows a step.

    python -m benchmarks.cache_overhead --data DIR

`unshared`: 32 chats at once on the real model, with the cache and with `cache=False`. The cost is
given as added wall time (the paper's definition) of steps that both take in turn; of the same
steps beside a model that computes nothing, over the run time with the real one, which leaves out
the noise of the products and is judged; and of whole runs. Besides as the time spent inside the
functions of tree, slots and queue, summed by a clock around each, part of which is spent without
the cache too. With `--device cuda` the steps with the real model are left out: the host prepares
one while the GPU computes another, so only whole runs tell. `queue`: the time of one step of the
engine's core over a model that computes nothing, with 100, 10,000 and 100,000 requests waiting.
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
from benchmarks.common.results import ResultFile, default_path, result_path

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
    file = ResultFile(args.output, what=__doc__, conditions=_conditions(args), limit=args.limit)
    if "unshared" in args.parts:
        on_cpu = args.device == "cpu"
        part = "unshared" if on_cpu else "unshared on a GPU"
        found = unshared(args) if on_cpu else unshared_on_gpu(args)
        file.add(part, found)
        print(_line(part, found), flush=True)
    if "queue" in args.parts:
        file.add("queue", queue_steps(args.limit))


def unshared(args: argparse.Namespace) -> dict[str, Any]:
    """Wall time with and without the cache in pairs, and the functions' own time."""
    from benchmarks.common.lockstep import Lockstep, added_share, seconds_without

    work = _Unshared(args, length=64)
    steps = Lockstep(work.engines["cache"], work.prompts, work.length)
    steps.run()
    runs = [steps.run() for _ in range(args.repetitions)]
    run_s = seconds_without(runs)
    silent = work.silent(run_s, 4 * args.repetitions)
    work.engines["no cache"].run(work.job)
    times, added = work.runs(max(2, args.repetitions // 2))
    added_steps = added_share(runs, run_s)
    return {
        **work.facts,
        **times,
        "run_seconds_without_cache": run_s,
        "added_wall_share_of_steps": added_steps,
        "added_wall_share_of_steps_beside_a_silent_model": silent,
        "added_wall_share_of_runs": added,
        **work.inside(times["times"]["cache"]["median_s"]),
        "goal": GOAL,
        "met": silent["high"] < GOAL and added_steps["low"] < GOAL,
    }


def unshared_on_gpu(args: argparse.Namespace) -> dict[str, Any]:
    """The same without steps of the real model in turn; longer runs, and more of them."""
    work = _Unshared(args, length=128)
    for _ in range(3):  # graphs are recorded at their second use
        for engine in work.engines.values():
            engine.run(work.job)
    times, added = work.runs(args.repetitions)
    run_s = times["times"]["no cache"]["median_s"]
    silent = work.silent(run_s, 2 * args.repetitions)
    return {
        **work.facts,
        **times,
        "run_seconds_without_cache": run_s,
        "added_wall_share_of_steps_beside_a_silent_model": silent,
        "added_wall_share_of_runs": added,
        **work.inside(run_s),
        "goal": GOAL,
        "met": silent["high"] < GOAL and added["low"] < GOAL,
    }


class _Unshared:
    """Chats at once that share nothing, and two engines for them."""

    def __init__(self, args: argparse.Namespace, length: int) -> None:
        from benchmarks.common.data import Data
        from benchmarks.common.sgc_engine import Job, SgcEngine
        from benchmarks.common.workloads import chat

        data = Data(args.data)
        number = 32 if args.limit is None else max(16, args.limit)
        self.length = length if args.limit is None else 4 * args.limit
        rows = [{"text": text, "length": self.length} for text in data.chats(number)]
        self.job = Job(chat, rows)
        self.engines = {
            name: SgcEngine(args.model, kv_tokens=16_000, device=args.device, cache=cache)
            for name, cache in (("cache", True), ("no cache", False))
        }
        self.prompts = [call.prompt for call in self.engines["cache"].record(self.job).calls]
        self.facts = {
            "work": f"{number} chats x {self.length} new tokens, all at once",
            "data": data.source,
        }

    def silent(self, run_s: float, repetitions: int) -> dict[str, Any]:
        """What the cache adds to steps beside a model that computes nothing, over `run_s`."""
        from benchmarks.common.lockstep import Lockstep, added_share

        steps = Lockstep(self.engines["cache"], self.prompts, self.length, silent=True)
        steps.run()
        return added_share([steps.run() for _ in range(repetitions)], run_s)

    def runs(self, repetitions: int) -> tuple[dict[str, Any], dict[str, float]]:
        """Times of whole runs of both engines in turn, and what the cache adds to them."""
        from benchmarks.common.timing import interleave, mean_interval

        works = {name: partial(engine.time, self.job) for name, engine in self.engines.items()}
        samples = interleave(works, repetitions)
        pairs = zip(samples["cache"].seconds, samples["no cache"].seconds, strict=True)
        times = {name: s.to_dict() for name, s in samples.items()}
        return {"times": times}, mean_interval([a / b - 1 for a, b in pairs])

    def inside(self, run_s: float) -> dict[str, Any]:
        """Time inside the functions of tree and queue, over `run_s`; ends the engines."""
        found = {name: _inside(engine, self.job) for name, engine in self.engines.items()}
        for engine in self.engines.values():
            engine.backend.close()
        with_cache, without = (found[name]["seconds"] for name in ("cache", "no cache"))
        return {
            "inside_functions": found,
            "inside_share_of_run_time": with_cache / run_s,
            "inside_share_beyond_no_cache": (with_cache - without) / run_s,
        }


def _line(part: str, found: dict[str, Any]) -> str:
    shares = []
    for what, name in (
        ("steps", "added_wall_share_of_steps"),
        ("steps beside a silent model", "added_wall_share_of_steps_beside_a_silent_model"),
        ("runs", "added_wall_share_of_runs"),
    ):
        if name in found:
            share = found[name]
            mean = share.get("share", share.get("mean"))
            low, high = _percent(share["low"]), _percent(share["high"])
            shares.append(f"{what} {_percent(mean)} (95 %: {low} to {high})")
    return (
        f"{part}, {found['work']}, {found['run_seconds_without_cache']:.3f} s: added wall time of "
        f"{', of '.join(shares)}; inside tree and queue "
        f"{_percent(found['inside_share_of_run_time'])}, "
        f"{_percent(found['inside_share_beyond_no_cache'])} more than without cache; goal below "
        f"{_percent(GOAL)}: {'met' if found['met'] else 'MISSED'}"
    )


def _conditions(args: argparse.Namespace) -> dict[str, Any]:
    if args.device == "cpu":
        return conditions(args.threads)
    import torch

    from benchmarks.gpu.gpu_conditions import gpu_conditions

    return gpu_conditions(torch.device(args.device))


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
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--output", type=result_path, default=default_path("cache_overhead"))
    args = parser.parse_args(argv)
    args.parts = args.parts.split(",")
    return args


if __name__ == "__main__":
    main()
