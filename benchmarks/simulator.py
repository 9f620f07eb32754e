"""How many prompt tokens are computed, by policy and pool, beside the fewest possible.

    python -m benchmarks.simulator --data DIR

Real graphs over real rows run below the real executor on the engine's own scheduler, queue, tree
and hints; only the model is missing: a step takes virtual time, and gens say words of a script
(`common/simulated_engine.py`). So runs are exact, repeatable, and take seconds. The pool holds 1,
2, 4 or 8 longest requests.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.data import Data
    from benchmarks.common.sgc_engine import Job
    from benchmarks.common.simulated_engine import SimulatedBackend
    from benchmarks.common.simulated_jobs import SimulatedJob

POOLS = (1, 2, 4, 8)  # longest requests
PARALLEL = 256  # the default of `sgc run`
PARTS = ("mmlu", "agents", "rag", "tree", "judge", "react", "game24")
BEST, FEWEST, BASE = "plan+hints", "fewest", "lpm+lru"
GOAL_OVER = 0.03  # computed tokens over the optimum
GOAL_FEWER = 0.25  # computed tokens below those of longest prefix and LRU, somewhere
_ROOMY = 2_000_000  # KV slots of the run that finds the longest request


@dataclass(frozen=True, slots=True)
class Policy:
    """How rows and calls are ordered, and what is known of the future.

    Attributes:
        engine: fields of `EngineConfig`.
        plan: rows run in the order of the batch plan.
        hints: the executor tells the engine what the graph knows.
    """

    engine: dict[str, Any] = field(default_factory=dict)
    plan: bool = False
    hints: bool = False


_PLAIN = {"priorities": False, "claims": 0.0}
_ON_A_CPU = {"claims": 0.7}
POLICIES = {
    "fcfs+lru": Policy({"order": "fcfs", **_PLAIN}),
    "lpm+lru": Policy({"order": "lpm", **_PLAIN}),
    "instances": Policy(_ON_A_CPU),  # the engine without plan and hints
    "plan": Policy(_ON_A_CPU, plan=True),
    "hints": Policy(_ON_A_CPU, hints=True),
    "plan+hints": Policy(_ON_A_CPU, plan=True, hints=True),
    # No token is computed anew to save steps.
    "fewest": Policy({**_ON_A_CPU, "step_tokens": 0.0}, plan=True, hints=True),
}


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(cores() if args.real else 1)
    from benchmarks.common.data import Data

    data = Data(args.data)
    threads = cores() if args.real else 1
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        data=data.source,
        limit=args.limit,
        conditions=conditions(threads),
    )
    for part, job in jobs(args, data):
        if args.real:
            file.add(f"{part}, real engine", confirm(part, job, args))
        else:
            file.add(part, measure(part, job, args))
    file.add("summary", found := summary(file.parts))
    print(json.dumps(found, indent=1))


def jobs(args: argparse.Namespace, data: Data) -> Iterator[tuple[str, SimulatedJob]]:
    """The workloads that were asked for."""
    from benchmarks.common.simulated_jobs import recorded_job, simulated_job

    if args.record is not None:
        yield args.record.stem, recorded_job(args.program, args.inputs, args.record)
        return
    for part in args.parts:
        yield part, simulated_job(part, data, args.data, args.limit)


def measure(part: str, job: SimulatedJob, args: argparse.Namespace) -> dict[str, Any]:
    """All policies at all pool sizes, over one workload."""
    longest = longest_request(job, args.model)
    found: dict[str, Any] = {"rows": len(job.job.rows), "longest_request": longest, "pools": {}}
    print(f"{part}: {len(job.job.rows)} rows, longest request {longest}")
    for size in args.pools:
        pool = found["pools"][f"{size}x"] = {}
        for name in args.policies:
            pool[name] = result = run(job, args.model, POLICIES[name], size * longest)
            print(f"  {size}x {name:10} {_line(result)}", flush=True)
    return found


def confirm(part: str, job: SimulatedJob, args: argparse.Namespace) -> dict[str, Any]:
    """The same on the real model, whose gens use all their tokens too."""
    from benchmarks.common.real_policies import run_on_model

    longest = longest_request(job, args.model)
    found: dict[str, Any] = {"rows": len(job.job.rows), "longest_request": longest, "pools": {}}
    print(f"{part}, real engine: {len(job.job.rows)} rows, longest request {longest}")
    for size in args.pools:
        pool = found["pools"][f"{size}x"] = {}
        for name in args.policies:
            policy = POLICIES[name]
            pool[name] = result = run_on_model(
                job.job, args.model, policy, size * longest, PARALLEL
            )
            print(f"  {size}x {name:10} {result}", flush=True)
    return found


def summary(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """How the goals stand, over all parts of the simulator that are there."""
    pools = {
        f"{part}, {size}": pool
        for part, found in parts.items()
        for size, pool in (found.get("pools", {}).items() if "real" not in part else ())
        if BEST in pool and BASE in pool
    }
    fewer = _beside(pools, BEST, "computed_tokens")
    return {
        BEST: _over_optimum(pools, BEST),
        FEWEST: _over_optimum(pools, FEWEST),
        "tokens_beside_lpm": fewer,
        "quarter_fewer": sorted(name for name, share in fewer.items() if share <= -GOAL_FEWER),
        "makespan_beside_lpm": _beside(pools, BEST, "makespan_s"),
        "retractions_with_hints": sum(pool[BEST]["retractions"] for pool in pools.values()),
    }


def _over_optimum(pools: Mapping[str, Mapping[str, Any]], policy: str) -> dict[str, Any]:
    over = {name: pool[policy]["over_optimum"] for name, pool in pools.items() if policy in pool}
    return {
        "over_optimum": over,
        "within_3_percent": sorted(name for name, share in over.items() if share <= GOAL_OVER),
        "missed": sorted(name for name, share in over.items() if share > GOAL_OVER),
    }


def _beside(pools: Mapping[str, Mapping[str, Any]], policy: str, figure: str) -> dict[str, float]:
    """A figure of a policy over that of longest prefix with LRU, as a share of it."""
    return {
        name: round(pool[policy][figure] / pool[BASE][figure] - 1.0, 4)
        for name, pool in pools.items()
    }


def longest_request(job: SimulatedJob, model: str) -> int:
    """Tokens of the longest request of a run, prompt and all that it may generate."""
    backend = make_backend(job, model, Policy(), _ROOMY)
    run_on(job, backend, Policy())
    return backend.loaded.core.longest


def run(job: SimulatedJob, model: str, policy: Policy, pool: int) -> dict[str, Any]:
    """Counters of one run, beside the optimum."""
    from benchmarks.common.optimum import fewest_in_any_order, fewest_in_order

    backend = make_backend(job, model, policy, pool)
    run_on(job, backend, policy)
    work, stats, served = backend.loaded.runner.work, backend.stats(), backend.loaded.core.served
    best = fewest_in_any_order(served)
    return {
        "prompt_tokens": stats["prompt_tokens"],
        "computed_tokens": work.prompt_tokens,
        "optimum": best,
        "over_optimum": round(work.prompt_tokens / best - 1.0, 4),
        "optimum_of_this_order": fewest_in_order(served, pool),
        "computed_again": backend.loaded.core.finder.causes.to_dict(),
        "retractions": stats["retractions"],
        "recomputed_tokens": stats["recomputed_tokens"],
        "peak_running": stats["peak_running"],
        "steps": work.steps,
        "makespan_s": round(backend.loaded.runner.now, 2),
    }


def make_backend(job: SimulatedJob, model: str, policy: Policy, pool: int) -> SimulatedBackend:
    """An engine without a model, with the tokenizer of one."""
    from benchmarks.common.simulated_engine import SimulatedBackend
    from benchmarks.common.simulated_runner import StepCost
    from benchmarks.common.simulated_script import WordScript
    from sgc_runtime.engine.config import EngineConfig
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    vocabulary = load_tokenizer(resolve(model))
    settings = EngineConfig(kv_tokens=pool, hints=policy.hints, **policy.engine)
    return SimulatedBackend(
        vocabulary,
        WordScript(vocabulary, reply=job.reply, recorded=job.recorded),
        StepCost(),
        settings,
    )


def run_on(job: SimulatedJob, backend: SimulatedBackend, policy: Policy) -> Sequence[Any]:
    """The states of all rows. Raises the first row's error."""
    from benchmarks.common.simulated_engine import drive
    from sgc_runtime.executor.loop import run_sync

    program, rows = job.job.program, job.job.rows
    options = {"mode": "compiled", "parallel": PARALLEL, "hints": policy.hints}
    run = program.job({"backend": backend, **options})
    values = [program.arguments((), row) for row in rows]
    order = planned(job.job, run, backend) if policy.plan else [(i, 0) for i in range(len(rows))]
    starts = [partial(run.row, i, values[i], shared_chars=shared) for i, shared in order]
    states: Sequence[Any] = run_sync(drive(backend, starts, PARALLEL))
    for error in filter(None, (state.error() for state in states)):
        raise error
    return states


def planned(job: Job, run: Any, backend: SimulatedBackend) -> list[tuple[int, int]]:
    """Rows in the order of the batch plan, each with what later ones share."""
    from sgc.planning import InPlanOrder, RowReader

    reader = RowReader(job.program.compile().graph, backend, run.defaults.params)
    rows = list(enumerate(job.program.arguments((), row) for row in job.rows))
    found = InPlanOrder(rows, lambda row: reader.facts(*row), None, None, PARALLEL)
    return [(index, shared) for (index, _), shared in found]


def _line(result: dict[str, Any]) -> str:
    again = ", ".join(
        f"{name} {count}" for name, count in result["computed_again"].items() if count
    )
    return (
        f"computed {result['computed_tokens']:7} = optimum {result['optimum']:7} "
        f"{100 * result['over_optimum']:+6.1f} %, this order {result['optimum_of_this_order']:7}, "
        f"{result['retractions']:3} retractions, {result['makespan_s']:7.1f} s; again: {again}"
    )


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of public evaluation sets")
    parser.add_argument("--limit", type=int, help="a smaller run")
    parser.add_argument("--parts", type=_names(PARTS), default=list(PARTS))
    parser.add_argument("--policies", type=_names(POLICIES), default=list(POLICIES))
    parser.add_argument(
        "--pools", type=lambda text: [int(n) for n in text.split(",")], default=POOLS
    )
    parser.add_argument("--model", default="smollm2-135m", help="whose tokenizer cuts the prompts")
    parser.add_argument("--output", type=result_path, default=default_path("simulator"))
    parser.add_argument("--real", action="store_true", help="on the real model; takes minutes")
    recorded = parser.add_argument_group("a run that `sgc run --record` has recorded, instead")
    recorded.add_argument("--record", type=Path, help="the file")
    recorded.add_argument("--program", help="PROGRAM.py[:FUNCTION]")
    recorded.add_argument("--inputs", type=Path, help="its rows, as JSONL")
    args = parser.parse_args(argv)
    if len({value is None for value in (args.record, args.program, args.inputs)}) == 2:
        parser.error("--record, --program and --inputs go together")
    return args


def _names(known: Any) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return names

    return parse


if __name__ == "__main__":
    main()
