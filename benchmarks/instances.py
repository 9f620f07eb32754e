"""What priorities by program and claims bring: instances of several calls under little memory.

    python -m benchmarks.instances

Order: requests of instances that have begun come before those of new ones. Claims: a new instance
waits while it would push out what begun ones come back for, or what their later calls, by the
bounds that the graph gives, may still need. Each is measured alone and with the other.

`virtual`: the engine's own scheduler and tree in virtual time, so that all arms are exact; four
programs (a conversation; an agent whose calls begin with shared texts; a tree of branches; a
conversation that often ends before its bounds say), gens that use all their tokens or end early,
three orders, several seeds. A step takes what it takes with the default model on two cores, and on
a machine whose steps take the same however much they compute. `real`: the conversation on the real
model, repetitions in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import interleave

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.sgc_engine import SgcEngine
    from benchmarks.common.virtual_engine import Figures

ARMS: dict[str, dict[str, Any]] = {
    "neither": {"priorities": False, "claims": 0.0},
    "order": {"priorities": True, "claims": 0.0},
    "claims": {"priorities": False, "claims": 1.0},
    "both, half of later calls": {"priorities": True, "claims": 0.5},
    "both": {"priorities": True, "claims": 1.0},
}
REAL_ARMS = ("neither", "order", "both")
ORDERS = ("lpm", "dfs", "fcfs")
PARTS = ("virtual", "real")
COSTS = {  # seconds: of a step, a prompt token, a running gen
    "two cores": (0.012, 0.0008, 0.0014),
    "a device that is hardly busy": (0.012, 0.00002, 0.00005),
}
POOLS = {"chat": 3_000, "agent": 4_000, "tree": 5_000, "failing": 3_000}  # KV slots
PARALLEL = 256  # the default of `sgc run`
REAL_POOL = 3_000
LENGTH = 30  # tokens of a gen of the real conversation
TURNS = "abcd"
WORDS = (
    "the quick brown fox jumps over a lazy dog while clouds drift past old stone bridges and rivers"
).split()
_COUNTERS = ("prompt_tokens", "cached_tokens", "recomputed_tokens", "retractions")


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    file = ResultFile(
        args.output,
        what=__doc__ or "",
        conditions=conditions(args.threads),
        instances=args.instances,
    )
    if "virtual" in args.parts:
        file.add("virtual", virtual(args.instances, args.seeds))
    if "real" in args.parts:
        file.add("real", real(args.model, args.instances, args.repetitions, args.order))


# -- virtual time


def virtual(instances: int, seeds: int) -> dict[str, Any]:
    """All arms of all programs, lengths, costs and orders."""
    found: dict[str, Any] = {"kv_tokens": POOLS, "seeds": seeds, "seconds_a_step": COSTS}
    for cost in COSTS:
        for program in POOLS:
            for full in (True, False):
                name = f"{program}, {'all tokens' if full else 'ends early'}, {cost}"
                print(name)
                found[name] = _orders(program, full, cost, instances, seeds)
    return found


def _orders(program: str, full: bool, cost: str, instances: int, seeds: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for order in ORDERS:
        # First come, first served has neither.
        for arm in ARMS if order != "fcfs" else ["neither"]:
            runs = [
                virtual_run(program, full, cost, order, arm, instances, s) for s in range(seeds)
            ]
            found.setdefault(order, {})[arm] = result = _summary(runs)
            print(f"  {order:5} {arm:26} {_line(result)}", flush=True)
    return found


def virtual_run(
    program: str, full: bool, cost: str, order: str, arm: str, instances: int, seed: int
) -> Figures:
    """One run of one arm."""
    from benchmarks.common.virtual_engine import StepCost, VirtualEngine
    from benchmarks.common.virtual_programs import PROGRAMS
    from sgc_runtime.engine.config import EngineConfig

    config = EngineConfig(kv_tokens=POOLS[program], order=order, **ARMS[arm])
    engine = VirtualEngine(StepCost(*COSTS[cost]), PARALLEL, config)
    engine.scheduler.admission._claims = config.claims  # without the order too, to show why not
    seeds = [random.Random(1_000 * seed + number) for number in range(instances)]
    return engine.run([PROGRAMS[program](rng, full) for rng in seeds])


def _summary(runs: list[Figures]) -> dict[str, Any]:
    """Means over the seeds; the seconds of each seed beside them."""
    return {
        "makespan_s": round(fmean(r.makespan_s for r in runs), 2),
        "mean_completion_s": round(fmean(fmean(r.completion_s) for r in runs), 2),
        "median_completion_s": round(fmean(median(r.completion_s) for r in runs), 2),
        "first_done_s": round(fmean(min(r.completion_s) for r in runs), 2),
        "computed_tokens": round(fmean(r.computed_tokens for r in runs)),
        "retractions": round(fmean(r.retractions for r in runs), 1),
        "steps": round(fmean(r.steps for r in runs)),
        "makespans_s": [round(r.makespan_s, 2) for r in runs],
        "mean_completions_s": [round(fmean(r.completion_s), 2) for r in runs],
    }


def _line(result: dict[str, Any]) -> str:
    return (
        f"{result['makespan_s']:6.2f} s, done after {result['mean_completion_s']:6.2f} s on "
        f"average (median {result['median_completion_s']:6.2f}), {result['computed_tokens']:7,} "
        f"prompt tokens computed, {result['retractions']:5} retractions"
    )


# -- the real model


class Arm:
    """One setting: an engine of its own, and what its runs gave."""

    def __init__(self, model: str, rows: list[dict[str, Any]], order: str, arm: str) -> None:
        from benchmarks.common.sgc_engine import SgcEngine

        self._engine: SgcEngine = SgcEngine(
            model, kv_tokens=REAL_POOL, order=order, max_running=128, **ARMS[arm]
        )
        self._rows = rows
        self.completion: list[list[float]] = []
        self.counters: list[dict[str, int]] = []

    def run(self) -> float:
        """Seconds of one run on an empty cache."""
        self._engine.clear()
        before = self._engine.backend.stats()
        begin = time.perf_counter()
        self.completion.append(asyncio.run(self._all()))
        seconds = time.perf_counter() - begin
        after = self._engine.backend.stats()
        self.counters.append({name: after[name] - before.get(name, 0) for name in _COUNTERS})
        return seconds

    def close(self) -> None:
        self._engine.backend.close()

    async def _all(self) -> list[float]:
        program, begin = _program(), time.perf_counter()

        async def one(row: dict[str, Any]) -> float:
            await program.arun(
                **row,
                backend=self._engine.backend,
                mode="compiled",  # the graph knows how many tokens may come
                options={"temperature": 0.0, "ignore_eos": True},
            )
            return time.perf_counter() - begin

        return await asyncio.gather(*map(one, self._rows))


def real(model: str, instances: int, repetitions: int, order: str) -> dict[str, Any]:
    """The conversation on the real model."""
    rows = _rows(instances)
    arms = {name: Arm(model, rows, order, name) for name in REAL_ARMS}
    samples = interleave({name: arm.run for name, arm in arms.items()}, repetitions)
    found: dict[str, Any] = {"model": model, "kv_tokens": REAL_POOL, "order": order}
    for name, arm in arms.items():
        found[name] = {
            **samples[name].to_dict(),
            "seconds": [round(s, 2) for s in samples[name].seconds],
            "mean_completion_s": round(median(map(fmean, arm.completion)), 2),
            "median_completion_s": round(median(map(median, arm.completion)), 2),
            "first_done_s": round(median(map(min, arm.completion)), 2),
            "mean_completions_s": [round(fmean(c), 2) for c in arm.completion],
            "counters": arm.counters,
        }
        print(
            f"real, {order}, {name}: {samples[name].median:.2f} s, done after "
            f"{found[name]['mean_completion_s']:.2f} s on average (median "
            f"{found[name]['median_completion_s']:.2f}), cached "
            f"{median(c['cached_tokens'] for c in arm.counters):,.0f} of "
            f"{arm.counters[0]['prompt_tokens']:,} prompt tokens",
            flush=True,
        )
        arm.close()
    return found


def _program() -> Any:
    import sgc

    @sgc.function
    def talk(s: Any, text: str) -> None:
        s += text
        for part in TURNS:
            s += "\nNext:"
            s += sgc.gen(part, max_tokens=LENGTH)

    return talk


def _rows(num: int) -> list[dict[str, Any]]:
    rng = random.Random(0)
    return [{"text": " ".join(rng.choices(WORDS, k=200))} for _ in range(num)]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--instances", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3, help="of the virtual part")
    parser.add_argument("--repetitions", type=int, default=3, help="of the real part")
    parser.add_argument("--order", choices=ORDERS[:2], default=ORDERS[0], help="of the real part")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=result_path, default=default_path("instances"))
    args = parser.parse_args(argv)
    args.parts = args.parts.split(",")
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    main()
