"""What compiling brings on the real model, cause by cause, and what it costs.

    python -m benchmarks.compiler --data DIR

Gain: programs of real shapes run interpreted and compiled on one engine each, with the same
`--parallel` and scheduler, from an empty cache. Both modes issue every call as soon as its inputs
are there. Compiled times hold the plan and the constants of the batch; tracing, which a process
does once, is measured on its own (`compile time`). Four settings:

- `2x`, over which the goal is judged: a KV pool of twice the longest request; rows in random
  order, 8 at a time. A table of 1,000 rows at the default of 256 has four times as many rows as
  run at a time; so have these, as far as their runs take seconds.
- `2x, all at once`: with the default `--parallel` of 256, so that all rows are in the engine from
  the beginning, and its scheduler itself can order all of them.
- `2x, file order`: as `2x`, in the order of the file, in which rows of a kind stand together.
- `roomy`: as `2x`, in a pool in which nothing has to be evicted.

Programs of no more than 8 rows are not run in the second and the third: there is no difference.

Interpreted and compiled runs take turns. In the first setting more arms follow, once each: without
each pass, plan and hints, with what a user has to ask for; their counts are what they are for. An
arm whose graph is that of another arm is not run again (`same_as`). Causes are added one after
another: the graph alone (calls seen earlier, less overhead: see `host_s`), passes (known tokens),
the plan (order), hints. `host_s`: the same run where each call is answered at once.

Cost: compile time of the gallery, of graphs of 10,000 nodes, loading of artefacts. `passes`: what
each pass changes in which program.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import interleave

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.compiler_arms import Arm, Batch, Bench, Figures
    from benchmarks.common.simulated_jobs import SimulatedJob


@dataclass(frozen=True, slots=True)
class Setting:
    """Under what the pair is compared.

    Attributes:
        parallel: rows at a time.
        tokens: of the KV pool, at least; it holds two longest requests in any case.
        file_order: rows as in their file, instead of in random order.
    """

    parallel: int
    tokens: int = 0
    file_order: bool = False


FEW, DEFAULT = 8, 256  # rows at a time; the second is the default of `sgc run`
SETTINGS = {
    "2x": Setting(FEW),
    "2x, all at once": Setting(DEFAULT),
    "2x, file order": Setting(FEW, file_order=True),
    "roomy": Setting(FEW, tokens=24_000),
}
GOAL_SETTING = next(iter(SETTINGS))
PAIRS, OTHER_PAIRS = 9, 1  # of the first setting, and of the others
PROGRAMS = ("mmlu", "tree", "judge", "rag", "react", "agents", "chat")
COSTS = ("compile time", "10,000 nodes", "artefact load", "passes")
_SHOWN = ("makespan_s", "computed_prompt_tokens", "model_calls", "mean_latency_s")
_PAIR = ("interpreted", "compiled")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    from benchmarks.common.compiler_gain import summary
    from benchmarks.common.compiler_suite import QUICK, suite_job
    from benchmarks.common.data import Data

    data = Data(args.data)
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        data=data.source,
        model=args.model,
        quick=args.quick,
        conditions=conditions(args.threads),
    )
    for name, measured in _costs().items():
        if name in args.parts:
            file.add(name, found := measured())
            print(name, json.dumps(found), flush=True)
    limit = QUICK if args.quick else args.limit
    for name in (name for name in PROGRAMS if name in args.parts):
        for setting, found in gains(name, suite_job(name, data, args.data, limit), args):
            file.add(f"{name}, {setting}", found)
            file.add("summary", summary(file.parts, PROGRAMS, tuple(SETTINGS)))
    if "summary" in file.parts:
        print(json.dumps(file.parts["summary"], indent=1))


def _costs() -> dict[str, Callable[[], dict[str, Any]]]:
    from benchmarks.common import compile_times as times

    works = (times.compile_times, times.big_graphs, times.artefact_loads, times.pass_effects)
    return dict(zip(COSTS, works, strict=True))


def gains(
    name: str, job: SimulatedJob, args: argparse.Namespace
) -> Iterator[tuple[str, dict[str, Any]]]:
    """One program in all settings that were asked for, those of one pool on one engine."""
    from benchmarks.common.compiler_arms import Bench
    from benchmarks.simulator import longest_request

    longest = longest_request(job, args.model)
    wanted = {setting: SETTINGS[setting] for setting in args.settings}
    for pool in dict.fromkeys(max(s.tokens, 2 * longest) for s in wanted.values()):
        bench = Bench(job.job.program, args.model, pool)
        try:
            _warm_up(bench, job)
            for setting, options in wanted.items():
                if max(options.tokens, 2 * longest) == pool and not _is_first(job, setting):
                    found = gain(bench, job, options, setting == GOAL_SETTING, args)
                    _show(name, setting, found)
                    yield setting, {"longest_request": longest, "kv_tokens": pool, **found}
        finally:
            bench.close()


def _is_first(job: SimulatedJob, setting: str) -> bool:
    """Whether a setting differs from the first one by nothing: all rows are there at once."""
    few = len(job.job.rows) <= FEW
    return few and setting != GOAL_SETTING and not SETTINGS[setting].tokens


def gain(
    bench: Bench, job: SimulatedJob, setting: Setting, whole: bool, args: argparse.Namespace
) -> dict[str, Any]:
    """The pair in one setting, and with `whole` all other arms."""
    from benchmarks.common.compiler_arms import ARMS, Batch
    from benchmarks.common.compiler_gain import causes, middle, speedup
    from benchmarks.common.compiler_suite import as_in_the_file

    rows = job.job.rows
    batch = Batch(as_in_the_file(rows) if setting.file_order else rows, setting.parallel)
    pairs = args.pairs if whole else min(OTHER_PAIRS, args.pairs)
    runs, timing = _run_pair(bench, batch, pairs)
    same: dict[str, str] = {}
    if whole and args.arms:
        others, same = distinct(ARMS, lambda arm: bench.identity(arm, batch))
        runs |= {name: [bench.run(arm, batch)] for name, arm in others.items() if name not in runs}
        for name, arm in others.items():
            host = bench.host_seconds(arm, batch)
            runs[name] = [replace(run, host=host) for run in runs[name]]
    arms = {name: middle(figures).to_dict() for name, figures in runs.items()}
    arms |= {name: {"same_as": other, **arms[other]} for name, other in same.items()}
    return {
        "rows": len(rows),
        "parallel": setting.parallel,
        **speedup(runs),
        "causes": causes(arms),
        "arms": arms,
        "timing": timing,
    }


def distinct(
    arms: Mapping[str, Arm], identity: Callable[[Arm], Hashable]
) -> tuple[dict[str, Arm], dict[str, str]]:
    """Arms that do different things, the pair first, and for each other one the one it is like."""
    first: dict[Hashable, str] = {}
    for name in (*_PAIR, *arms):
        first.setdefault(identity(arms[name]), name)
    same = {name: first[identity(arm)] for name, arm in arms.items()}
    kept = {name: arm for name, arm in arms.items() if same[name] == name}
    return kept, {name: other for name, other in same.items() if other != name}


def _run_pair(
    bench: Bench, batch: Batch, pairs: int
) -> tuple[dict[str, list[Figures]], dict[str, Any]]:
    """Runs of both arms, which take turns, and their times."""
    from benchmarks.common.compiler_arms import ARMS

    runs: dict[str, list[Figures]] = {name: [] for name in _PAIR}

    def work(name: str) -> Callable[[], float]:
        def once() -> float:
            runs[name].append(figures := bench.run(ARMS[name], batch))
            return figures.seconds

        return once

    samples = interleave({name: work(name) for name in _PAIR}, pairs)
    return runs, {name: taken.to_dict() for name, taken in samples.items()}


def _warm_up(bench: Bench, job: SimulatedJob) -> None:
    from benchmarks.common.compiler_arms import ARMS, Batch
    from benchmarks.common.compiler_suite import WARM_UP

    for name in _PAIR:
        bench.run(ARMS[name], Batch(job.job.rows[:WARM_UP], FEW))


def _show(name: str, setting: str, found: Mapping[str, Any]) -> None:
    print(f"{name}, {setting}: {found['rows']} rows, {found['speedup']} x, {found['causes']}")
    for arm, figures in found["arms"].items():
        like = f" (as {figures['same_as']})" if "same_as" in figures else ""
        shown = ", ".join(f"{key} {figures[key]}" for key in _SHOWN)
        print(f"  {arm:25} {shown}{like}", flush=True)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parts = (*COSTS, *PROGRAMS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="about so many rows of each program")
    parser.add_argument("--parts", default="|".join(parts), help="names with | between them")
    parser.add_argument("--settings", default="|".join(SETTINGS), help="likewise")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of the first setting")
    parser.add_argument("--no-arms", dest="arms", action="store_false", help="only the pair")
    parser.add_argument("--quick", action="store_true", help="few rows, one pair")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=result_path, default=default_path("compiler"))
    args = parser.parse_args(argv)
    args.parts, args.settings = args.parts.split("|"), args.settings.split("|")
    for given, known in (args.parts, parts), (args.settings, SETTINGS):
        if unknown := set(given) - set(known):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {'|'.join(known)}")
    if args.quick:
        args.pairs = 1
    return args


if __name__ == "__main__":
    main()
