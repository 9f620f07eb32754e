"""What priorities by program bring: instances of several calls under little memory.

    python -m benchmarks.instances

Each instance makes four gens, each behind what came before; the KV pool holds about a third of
what all instances need together. With priorities, instances that have begun go on before new ones
begin, and what they will come back for is left in the cache. Repetitions take turns.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.results import ResultFile, default_path
from benchmarks.common.timing import interleave

if TYPE_CHECKING:  # brings in torch, whose threads are set first
    from benchmarks.common.sgc_engine import SgcEngine

INSTANCES = 32
POOL = 3_000  # KV slots
LENGTH = 30  # tokens of a gen
PARTS = "abcd"  # the gens of an instance
WORDS = (
    "the quick brown fox jumps over a lazy dog while clouds drift past old stone bridges and rivers"
).split()
_COUNTERS = ("prompt_tokens", "cached_tokens", "recomputed_tokens", "retractions")


class Arm:
    """One setting: an engine of its own, and what its runs gave."""

    def __init__(self, model: str, rows: list[dict[str, Any]], priorities: bool) -> None:
        from benchmarks.common.sgc_engine import SgcEngine

        self._engine: SgcEngine = SgcEngine(model, kv_tokens=POOL, priorities=priorities)
        self._rows = rows
        self.completion: list[float] = []
        self.counters: list[dict[str, int]] = []

    def run(self) -> float:
        """Seconds of one run on an empty cache."""
        self._engine.clear()
        before = self._engine.backend.stats()
        ended: list[float] = []
        begin = time.perf_counter()
        for state in _program(ended).run_batch(
            self._rows,
            backend=self._engine.backend,
            parallel=len(self._rows),
            mode="interpreted",  # the body runs, so that it can note when it ends
            options={"temperature": 0.0, "ignore_eos": True},
        ):
            if (error := state.error()) is not None:
                raise error
        seconds = time.perf_counter() - begin
        after = self._engine.backend.stats()
        self.completion.append(fmean(end - begin for end in ended))
        self.counters.append({name: after[name] - before.get(name, 0) for name in _COUNTERS})
        return seconds

    def close(self) -> None:
        self._engine.backend.close()


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    file = ResultFile(
        args.output, what=__doc__, kv_tokens=POOL, conditions=conditions(args.threads)
    )
    rows = _rows(args.instances)
    arms = {"with": Arm(args.model, rows, True), "without": Arm(args.model, rows, False)}
    samples = interleave({name: arm.run for name, arm in arms.items()}, args.repetitions)
    for name, arm in arms.items():
        result = {
            "instances": args.instances,
            **samples[name].to_dict(),
            "seconds": [round(s, 3) for s in samples[name].seconds],
            "mean_completion_s": round(median(arm.completion), 3),
            "counters": arm.counters,
        }
        file.add(name, result)
        print(
            f"{name:8} priorities: {result['median_s']:.2f} s, an instance is done after "
            f"{result['mean_completion_s']:.2f} s on average, cached tokens "
            f"{median(c['cached_tokens'] for c in arm.counters):,.0f} of "
            f"{arm.counters[0]['prompt_tokens']:,}",
            flush=True,
        )
        arm.close()


def _program(ended: list[float]) -> Any:
    import sgc

    @sgc.function
    def talk(s: Any, text: str) -> None:
        s += text
        for part in PARTS:
            s += "\nNext:"
            s += sgc.gen(part, max_tokens=LENGTH)
        s[PARTS[-1]]
        ended.append(time.perf_counter())

    return talk


def _rows(num: int) -> list[dict[str, Any]]:
    rng = random.Random(0)
    return [{"text": " ".join(rng.choices(WORDS, k=200))} for _ in range(num)]


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--output", type=Path, default=default_path("instances"))
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
