"""What compiling brings on the real model, cause by cause, and what it costs.

    python -m benchmarks.compiler --data DIR

Gain: programs of real shapes run interpreted and compiled on one engine each, with the same
`--parallel` and scheduler, from an empty cache, at memory pressure (a KV pool of twice the longest
request) and in a roomy pool. Both modes issue every call as soon as its inputs are there. Compiled
times hold the plan and the constants of the batch; tracing, which a process does once, is measured
on its own (`compile time`). Interpreted and compiled runs take turns; the other arms are run fewer
times: their counts are what they are for. Causes are added one after another: the graph alone
(calls known one by one), passes (known tokens), the plan (order), hints.

Cost: compile time of the gallery, of graphs of 10,000 nodes, loading of artefacts. `passes`: what
each pass changes in which program.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import interleave

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.compiler_arms import Bench, Figures

GOAL_MEAN, GOAL_LEAST = 1.2, 0.98
PRESSURE, ROOMY = "2x", "roomy"
ROOMY_TOKENS = 24_000
PARALLEL = 256  # the default of `sgc run`
PAIRS, OTHERS = 9, 1  # repetitions
NUM_PROGRAMS = 7
COSTS = ("compile time", "10,000 nodes", "artefact load", "passes")
_SHOWN = ("makespan_s", "computed_prompt_tokens", "model_calls", "mean_latency_s")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    from benchmarks.common.compiler_suite import QUICK, SUITE
    from benchmarks.common.data import Data

    data = Data(args.data)
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        data=data.source,
        model=args.model,
        parallel=PARALLEL,
        quick=args.quick,
        conditions=conditions(args.threads),
    )
    for name, measured in _costs().items():
        if name in args.parts:
            file.add(name, found := measured())
            print(name, json.dumps(found), flush=True)
    limit = QUICK if args.quick else args.limit
    for pool in args.pools:
        for name in (name for name in SUITE if name in args.parts):
            file.add(f"{name}, {pool}", gain(name, pool, data, limit, args))
            file.add("summary", summary(file.parts))
    if "summary" in file.parts:
        print(json.dumps(file.parts["summary"], indent=1))


def _costs() -> dict[str, Callable[[], dict[str, Any]]]:
    from benchmarks.common import compile_times as times

    works = (times.compile_times, times.big_graphs, times.artefact_loads, times.pass_effects)
    return dict(zip(COSTS, works, strict=True))


def gain(
    name: str, pool: str, data: Any, limit: int | None, args: argparse.Namespace
) -> dict[str, Any]:
    """All arms over one program at one pool size."""
    from benchmarks.common.compiler_arms import ARMS, Bench
    from benchmarks.common.compiler_suite import SUITE, suite_job
    from benchmarks.simulator import longest_request

    job = suite_job(name, data, args.data, limit)
    longest = longest_request(job, args.model)
    slots = 2 * longest if pool == PRESSURE else max(ROOMY_TOKENS, 2 * longest)
    bench = Bench(job.job, args.model, slots, PARALLEL)
    try:
        runs, timing = _run_arms(bench, ARMS if args.arms else _pair(ARMS), args.repetitions)
    finally:
        bench.close()
    arms = {arm: middle(figures).to_dict() for arm, figures in runs.items()}
    found = {
        "what": SUITE[name][0],
        "rows": len(job.job.rows),
        "longest_request": longest,
        "kv_tokens": slots,
        **speedup(runs),
        "causes": causes(arms),
        "arms": arms,
        "timing": timing,
    }
    print(f"{name}, {pool}: {found['rows']} rows, {found['speedup']} x, causes {found['causes']}")
    for arm, figures in arms.items():
        print(f"  {arm:16} " + ", ".join(f"{key} {figures[key]}" for key in _SHOWN), flush=True)
    return found


def _pair(arms: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arms[name] for name in ("interpreted", "compiled")}


def _run_arms(
    bench: Bench, arms: Mapping[str, Any], repetitions: int
) -> tuple[dict[str, list[Figures]], dict[str, Any]]:
    """Runs of each arm, and the times of those that took turns."""
    runs: dict[str, list[Figures]] = {name: [] for name in arms}

    def work(name: str) -> Callable[[], float]:
        def once() -> float:
            runs[name].append(figures := bench.run(arms[name]))
            return figures.seconds

        return once

    for name in _pair(arms):  # warm-up
        bench.run(arms[name])
    samples = interleave({name: work(name) for name in _pair(arms)}, repetitions)
    if others := {name: work(name) for name in arms if name not in samples}:
        interleave(others, min(OTHERS, repetitions))
    return runs, {name: taken.to_dict() for name, taken in samples.items()}


def middle(figures: list[Figures]) -> Figures:
    """The run of the median makespan (the lower one of two)."""
    return sorted(figures, key=lambda run: run.seconds)[(len(figures) - 1) // 2]


def speedup(runs: Mapping[str, list[Figures]]) -> dict[str, Any]:
    """Interpreted over compiled, as the median over the pairs."""
    pairs = zip(runs["interpreted"], runs["compiled"], strict=True)
    ratios = [a.seconds / b.seconds for a, b in pairs]
    return {
        "speedup": round(median(ratios), 4),
        "speedups": [round(ratio, 3) for ratio in ratios],
        "least_of_goal": GOAL_LEAST,
        "met": median(ratios) >= GOAL_LEAST,
    }


def causes(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What each cause multiplies programs/s by, and prompt tokens that it saves, in turn."""
    names = ("interpreted", "graph alone", "and passes", "and plan", "compiled")
    if any(name not in arms for name in names):
        return {}
    labels = ("overhead and calls seen", "passes", "plan", "hints")
    found = {}
    for label, before, after in zip(labels, names, names[1:], strict=False):
        found[label] = {
            "speedup": round(arms[before]["makespan_s"] / arms[after]["makespan_s"], 3),
            "prompt_tokens_saved": arms[before]["computed_prompt_tokens"]
            - arms[after]["computed_prompt_tokens"],
        }
    return found


def summary(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The goal, over all programs of the file."""
    found: dict[str, Any] = {}
    for pool in (PRESSURE, ROOMY):
        by = {n: p["speedup"] for n, p in parts.items() if n.endswith(f", {pool}")}
        if not by:
            continue
        mean = geometric_mean(by.values())
        assert math.isfinite(mean)
        found[pool] = {
            "geometric_mean": round(mean, 4),
            "least": min(by, key=by.__getitem__),
            "speedups": by,
            "below_goal": sorted(name for name, value in by.items() if value < GOAL_LEAST),
        }
        if pool == PRESSURE:
            whole = len(by) == NUM_PROGRAMS  # a part of the suite says nothing of the goal
            met = mean >= GOAL_MEAN if whole else None
            found[pool] |= {"goal": GOAL_MEAN, "measured": f"{len(by)} of {NUM_PROGRAMS}"}
            found[pool]["met"] = met
    return found


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    from_suite = ("mmlu", "tree", "judge", "rag", "react", "agents", "chat")
    parts = (*COSTS, *from_suite)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="about so many rows of each program")
    parser.add_argument("--parts", default="|".join(parts), help="names with | between them")
    parser.add_argument("--pools", default=f"{PRESSURE},{ROOMY}")
    parser.add_argument("--repetitions", type=int, default=PAIRS, help="pairs")
    parser.add_argument("--no-arms", dest="arms", action="store_false", help="only the pair")
    parser.add_argument("--quick", action="store_true", help="few rows, one pair")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=result_path, default=default_path("compiler"))
    args = parser.parse_args(argv)
    args.parts, args.pools = args.parts.split("|"), args.pools.split(",")
    if unknown := {*args.parts, *args.pools} - {*parts, PRESSURE, ROOMY}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {'|'.join(parts)}")
    if args.quick:
        args.repetitions = 1
    return args


if __name__ == "__main__":
    main()
