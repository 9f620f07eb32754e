"""One program over its rows on the real engine, interpreted or compiled in a given way."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from benchmarks.common.sgc_engine import SgcEngine
from sgc.batch import run_rows
from sgc.common_values import common_values
from sgc.compile import ROW_PASSES, CompiledProgram, compile_spec
from sgc.planned_batch import run_planned
from sgc.program import Program
from sgc_ir.codec import encode
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import defaults, run_passes
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.state import FinishedState

if TYPE_CHECKING:
    from sgc.runnable import Job as Run
    from sgc.runnable import Runnable

_HOST_REPETITIONS = 5
_COUNTERS = (
    "prompt_tokens",
    "cached_tokens",
    "recomputed_tokens",
    "completion_tokens",
    "forced_tokens",
    "scored_tokens",
    "retractions",
    "prefill_steps",
    "decode_steps",
    "ahead_tokens",
    "tokenizer_calls",
)


@dataclass(frozen=True, slots=True)
class Arm:
    """How a program runs.

    Attributes:
        passes: those over its graph and over the graph of the batch; None: interpreted.
        plan: rows start in the order of the batch plan.
        hints: the engine is told what is known of calls to come.
        merge: equal calls of all rows are made once.
    """

    passes: tuple[str, ...] | None = field(default_factory=defaults)
    plan: bool = True
    hints: bool = True
    merge: bool = False


INTERPRETED = Arm(passes=None)  # an interpreter plans nothing; it sends what it can know
COMPILED = Arm()
# From the second one on a cause is added from one to the next.
LADDER: dict[str, Arm] = {
    "interpreted": INTERPRETED,
    "interpreted without hints": Arm(passes=None, hints=False),
    "graph alone": Arm((), plan=False, hints=False),
    "and passes": Arm(plan=False, hints=False),
    "and plan": Arm(hints=False),
    "compiled": COMPILED,
}
ABLATIONS: dict[str, Arm] = {
    "without passes": Arm(()),
    "without plan": Arm(plan=False),
    "without hints": Arm(hints=False),
    **{
        f"without {name}": Arm(tuple(other for other in defaults() if other != name))
        for name in defaults()
    },
}
# What a user has to ask for. `--reorder-rows` plans all rows at once, as is done here anyway: they
# are fewer than the first window holds.
OPT_IN: dict[str, Arm] = {
    "with merge": Arm((*defaults(), "merge"), merge=True),
    "with reorder": Arm((*defaults(), "reorder")),
}
ARMS = LADDER | ABLATIONS | OPT_IN


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows in the order in which they are given, and how many of them run at a time."""

    rows: Sequence[Mapping[str, Any]]
    parallel: int


@dataclass(slots=True)
class Figures:
    """Times and counters of one run.

    Attributes:
        seconds: from the first row's start to the last one's end, planning included.
        latencies: seconds of each row from its own start.
        ends: seconds from the run's start to each row's end.
        first_start: seconds from the run's start to the first row's.
        host: `Bench.host_seconds` of the same arm, where that was measured.
    """

    seconds: float
    latencies: list[float]
    ends: list[float]
    first_start: float
    counters: dict[str, int]
    host: float | None = None

    def to_dict(self) -> dict[str, Any]:
        count = self.counters
        computed = count["prompt_tokens"] - count["cached_tokens"] + count["recomputed_tokens"]
        return {
            "programs_per_s": round(len(self.ends) / self.seconds, 3),
            "makespan_s": round(self.seconds, 4),
            "mean_latency_s": round(fmean(self.latencies), 4),
            "mean_end_s": round(fmean(self.ends), 4),
            "first_start_s": round(self.first_start, 4),
            "computed_prompt_tokens": computed,
            **({} if self.host is None else {"host_s": round(self.host, 4)}),
            **count,
        }


class _AtOnce(ScriptedBackend):
    """Answers at once, and wants to know what an engine wants to know."""

    keeps_prefixes = takes_hints = True

    def __init__(self) -> None:
        super().__init__(lambda prompt, params: "Fine, 7 of 10.")


class Bench:
    """A program on an engine of its own; each arm is prepared once.

    Args:
        pool: KV slots.
    """

    def __init__(self, program: Program, model: str, pool: int) -> None:
        self._program = program
        self._engine = SgcEngine(model, kv_tokens=pool)
        self._calls = _count_calls(self._engine.loaded.engine.core.metrics)
        self._programs: dict[tuple[str, ...], CompiledProgram] = {}

    def run(self, arm: Arm, batch: Batch) -> Figures:
        """Run all rows on an empty cache. Raises the first row's error."""
        self._engine.clear()
        before, calls = self._counters(), len(self._calls)
        clock = _Clock(self._program)
        begin, seconds = self._execute(arm, batch, self._engine.backend, clock)
        counted = {name: value - before[name] for name, value in self._counters().items()}
        counted["model_calls"] = len(self._calls) - calls
        spans = [(a - begin, b - begin) for a, b in clock.spans]
        latencies, ends = [b - a for a, b in spans], [b for _, b in spans]
        return Figures(seconds, latencies, ends, min(a for a, _ in spans), counted)

    def host_seconds(self, arm: Arm, batch: Batch) -> float:
        """Seconds of the same run where each call is answered at once; the least of some runs."""
        clock = _Clock(self._program)
        return min(self._execute(arm, batch, _AtOnce(), clock)[1] for _ in range(_HOST_REPETITIONS))

    def _execute(
        self, arm: Arm, batch: Batch, backend: Backend, clock: _Clock
    ) -> tuple[float, float]:
        """When a run began, and how many seconds it took."""
        run = self._prepare(arm, batch.parallel, backend)
        compiled = None if arm.passes is None else self._traced(arm.passes)
        begin = time.perf_counter()
        if compiled is None:
            states: Sequence[FinishedState] = list(
                run_rows(batch.rows, clock._starter(run), batch.parallel, False, lazy=False)
            )
        else:
            program = self._for_batch(compiled, arm.passes or (), batch)
            states = run_planned(cast("Runnable", clock), program, run, batch.rows, False)
        seconds = time.perf_counter() - begin
        for error in filter(None, (state.error() for state in states)):
            raise error
        return begin, seconds

    def identity(self, arm: Arm, batch: Batch) -> tuple[Any, ...]:
        """Arms of one identity do the same."""
        if arm.passes is None:
            return None, arm.hints
        graph = self._for_batch(self._traced(arm.passes), arm.passes, batch).graph
        return encode(graph), arm.plan, arm.hints, arm.merge

    def close(self) -> None:
        self._engine.backend.close()

    def _prepare(self, arm: Arm, parallel: int, backend: Backend) -> Run:
        options = {
            "mode": "interpreted" if arm.passes is None else "compiled",
            "parallel": parallel,
            "plan": arm.plan,
            "hints": arm.hints,
            "merge": arm.merge,
            "temperature": 0.0,
            "ignore_eos": True,
        }
        return self._program.job({"backend": backend, **options})

    def _traced(self, passes: tuple[str, ...]) -> CompiledProgram:
        if passes not in self._programs:
            self._programs[passes] = compile_spec(self._program.spec, passes)
        return self._programs[passes]

    def _for_batch(
        self, program: CompiledProgram, passes: tuple[str, ...], batch: Batch
    ) -> CompiledProgram:
        """What a batch makes of the arguments that its rows have in common."""
        if "rows" not in passes:
            return program
        common = common_values(program.values_or_none(row) for row in batch.rows)
        if not common:
            return program
        wanted = [name for name in ROW_PASSES if name in passes]
        graph, reports = run_passes(program.graph, wanted, Context(common))
        return CompiledProgram(graph, program.tools.values(), reports)

    def _counters(self) -> dict[str, int]:
        stats = self._engine.backend.stats()
        return {name: int(stats.get(name) or 0) for name in _COUNTERS}


class _Clock:
    """Takes the place of a program in a batch, and notes when each row starts and ends."""

    def __init__(self, program: Runnable) -> None:
        self._program = program
        self.spans: list[tuple[float, float]] = []

    def _starter(self, job: Run) -> Callable[..., Coroutine[Any, Any, FinishedState]]:
        start = self._program._starter(job)

        async def timed(*args: Any) -> FinishedState:
            begin = time.perf_counter()
            state = await start(*args)
            self.spans.append((begin, time.perf_counter()))
            return state

        return timed


def _count_calls(metrics: Metrics) -> list[int]:
    """A list that gets an entry with every model call that ends."""
    calls: list[int] = []

    class Counting(Metrics):
        __slots__ = ()

        def add_call(self, usage: Any) -> None:
            calls.append(usage.prompt_tokens)
            Metrics.add_call(self, usage)

    metrics.__class__ = Counting
    return calls
