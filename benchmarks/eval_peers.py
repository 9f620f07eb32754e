"""The workloads of `sgc eval` in our engine and in others, each replaying one recorded run.

    python -m benchmarks.eval_peers --data DIR

A run of each suite is recorded on our engine: prompts as ids, lengths, choices. Every engine then
replays it, with EOS ignored, the same number of calls at a time, an empty prefix cache at the
beginning of each repetition and the same number of threads, in turn in one process. A ratio is
given only where an engine made as many ids, and scored as many choices, as were recorded. Engines
that are not installed are absent. `--keep FOLDER` keeps the recordings, `--recorded FOLDER` replays
such ones, on another machine or model. What our programs cost themselves (tokenising, executing,
constraints, jumps) stands apart, as `program`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common.conditions import conditions, cores, use_threads
from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import interleave
from benchmarks.peers.registry import NAMES, ON_CPU
from benchmarks.peers.table import best_peer, line, overall, ratios

if TYPE_CHECKING:  # torch comes in once its threads are set
    from benchmarks.peers.adapter import Adapter
    from benchmarks.peers.recorded import SuiteRun
    from benchmarks.peers.sgc_adapter import SgcReplay
    from sgc.eval.suite import Row, Suite

OURS = "sgc"
SUITES = (
    "mmlu,hellaswag,gsm8k,react,generative-agents,tree-of-thought,skeleton-of-thought,llm-judge,"
    "json,json-fields,chat-short,chat-long,rag,long-doc"
)
_WARM_CALLS = 2


def main(argv: list[str] | None = None) -> None:
    args = _arguments(argv)
    use_threads(args.threads)
    from benchmarks.common.sgc_engine import SgcEngine
    from benchmarks.peers.registry import Makers
    from benchmarks.peers.sgc_adapter import SgcReplay
    from sgc.eval.registry import find_suites
    from sgc_runtime.models import resolve

    model = Path(resolve(args.model))
    ours = SgcReplay(SgcEngine(model, kv_tokens=args.kv_tokens, device=args.device))
    peers, missing = Makers(model, args.threads).make_all(args.peers)
    file = ResultFile(
        args.output,
        what="one recorded run of each suite, replayed by our engine and by others",
        conditions=conditions(args.threads),
        data=Path(args.data).name,
        limit=args.limit,
        parallel=args.parallel,
        model=model.name,
        kv_tokens=args.kv_tokens,
        absent=missing,
        methods={engine.name: engine.method for engine in (ours, *peers)},
        lacks={engine.name: list(engine.lacks) for engine in peers},
    )
    print("".join(f"absent: {reason}\n" for reason in missing.values()), end="", flush=True)
    for suite in find_suites(args.suites):
        bench = _Workload(args, suite, ours, peers)
        file.add(suite.name, bench.measure())
        print(line(suite.name, file.parts[suite.name]), flush=True)
    workloads = {name: part for name, part in file.parts.items() if name != "overall"}
    if total := overall(workloads):
        file.add("overall", total)
        print(f"geometric mean of the best peers: {total['best_peer']:.2f}x")
    for engine in (ours, *peers):
        engine.close()


class _Workload:
    """One suite on all engines."""

    def __init__(
        self, args: argparse.Namespace, suite: Suite, ours: SgcReplay, peers: list[Adapter]
    ) -> None:
        self._args, self._suite, self._ours, self._peers = args, suite, ours, peers
        self._left_out: dict[str, str] = {}
        self._replays: dict[str, Replay] = {}

    def measure(self) -> dict[str, Any]:
        """Everything about the workload, as JSON data."""
        rows = self._rows()
        run = self._recorded(rows)
        works: dict[str, Callable[[], float]] = {}
        for engine in (self._ours, *self._peers):
            try:
                engine.replay(run.head(_WARM_CALLS).recording, self._args.parallel)
                works[engine.name] = partial(self._replay, engine, run)
            except PeerMissing as reason:
                self._left_out[engine.name] = str(reason)
        samples = interleave(
            works, self._args.repetitions, self._args.engine_seconds, (PeerMissing,)
        )
        found = ratios(samples, OURS)
        best = best_peer(found)
        return {
            "run": run.facts(),
            "seconds": {name: sample.to_dict() for name, sample in samples.items()},
            "computed_tokens": {n: r.computed_tokens for n, r in self._replays.items()},
            "same_first_ids": self._same_first_ids(run),
            "ratios": {name: round(ratio, 3) for name, ratio in found.items()},
            "best": best,
            "ratio": None if best is None else round(found[best], 3),
            "left_out": self._left_out,
            "program": self._program(rows),
        }

    def _rows(self) -> list[Row]:
        from sgc.eval.options import EvalOptions
        from sgc.eval.run import load_suite

        args = self._args
        options = EvalOptions(args.data, Path(), limit=args.limit, quiet=True)
        return [row for row in load_suite(self._suite, options) if not row.problem]

    def _recorded(self, rows: list[Row]) -> SuiteRun:
        from benchmarks.peers.recorded import read_run, record_suite

        name, args = f"{self._suite.name}.json", self._args
        if args.recorded is not None:
            return read_run(args.recorded / name)
        self._ours.engine.clear()
        run = record_suite(self._suite, rows, self._ours.engine.backend, args.parallel)
        if args.keep is not None:
            args.keep.mkdir(parents=True, exist_ok=True)
            run.write(args.keep / name)
        return run

    def _replay(self, engine: Adapter, run: SuiteRun) -> float:
        from benchmarks.peers.adapter import check_work

        try:
            replay = engine.replay(run.recording, self._args.parallel)
            check_work(run.recording, replay)
        except ValueError as error:
            if engine.name == OURS:
                raise
            self._left_out[engine.name] = f"other work: {error}"
            raise PeerMissing(str(error)) from error
        except PeerMissing as reason:
            self._left_out[engine.name] = str(reason)
            raise
        self._replays[engine.name] = replay
        return replay.seconds

    def _same_first_ids(self, run: SuiteRun) -> dict[str, float]:
        from benchmarks.peers.adapter import same_first_ids

        ours = self._replays[OURS]
        return {
            name: round(same_first_ids(run.recording, replay, ours), 3)
            for name, replay in self._replays.items()
        }

    def _program(self, rows: list[Row]) -> dict[str, Any] | None:
        """Free-running: our engine on the program itself."""
        if self._args.recorded is not None:
            return None
        seconds, made = self._ours.time_program(self._suite, rows, self._args.parallel)
        return {"seconds": round(seconds, 4), "new_tokens": made}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="builtin", help="folder of the benchmarks' files")
    parser.add_argument("--suites", default=SUITES, help="names, with commas between them")
    parser.add_argument("--limit", type=int, help="rows of a suite, at most")
    parser.add_argument("--peers", default=",".join(ON_CPU), help="any of them, or empty")
    parser.add_argument("--parallel", type=int, default=32, help="calls at a time")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--engine-seconds",
        type=float,
        default=60.0,
        help="an engine is timed less often where its repetitions would take longer",
    )
    parser.add_argument("--kv-tokens", type=int, default=48_000)
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--keep", type=Path, help="folder for the recordings")
    parser.add_argument("--recorded", type=Path, help="folder of recordings that are replayed")
    parser.add_argument("--output", type=result_path, default=default_path("eval_peers"))
    args = parser.parse_args(argv)
    args.peers = [name for name in args.peers.split(",") if name]
    args.suites = [name for name in args.suites.split(",") if name]
    if unknown := set(args.peers) - set(NAMES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; peers are {', '.join(NAMES)}")
    return args


if __name__ == "__main__":
    main()
