"""Our engine, driven through the public program interface."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.recording import Recording, RecordingBackend, as_backend
from benchmarks.common.stopwatch import Stopwatch
from sgc.program import Program
from sgc.runnable import Runnable
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.engine.assemble import LoadedEngine
from sgc_runtime.engine.host_runner import HostRunner


@dataclass(frozen=True, slots=True)
class Job:
    """A program, and the rows that it runs over, all at once."""

    program: Program
    rows: Sequence[Mapping[str, Any]]

    def head(self, number: int | None) -> Job:
        """The same over the first `number` rows; over all when that is None."""
        return Job(self.program, self.rows[:number])


@dataclass(frozen=True, slots=True)
class Counted:
    """What one run put through the model, and where its time went.

    `prompt_tokens` may differ by a few from the recorded ones where prompts hold generated text:
    rounding can turn a token, and another text may be encoded in more or fewer ids.
    """

    prompt_tokens: int
    computed_tokens: int
    completion_tokens: int
    scored: int
    seconds: dict[str, float]


class SgcEngine:
    """A loaded `LocalBackend`.

    Args:
        model: name or path.
        options: of `LocalBackend`.
    """

    def __init__(self, model: str | Path, **options: Any) -> None:
        self.backend = LocalBackend(model, dtype="bfloat16", **options)
        self.backend.load()
        self.loaded: LoadedEngine = asyncio.run(self.backend.engine())

    def clear(self) -> None:
        """Empty the prefix cache; nothing may be running."""
        cache = self.loaded.engine.core.cache
        slots = cache.alloc(cache.available)
        assert slots is not None
        assert len(slots) == cache.num_slots, "something is running"
        cache.release(slots)
        self.loaded.unconditional.clear()

    def run(self, job: Job) -> list[Any]:
        """Run all rows on a cold prefix cache; their states. Raises the first row's error."""
        self.clear()
        return run_job(job, self.backend)

    def time(self, job: Job) -> float:
        """Seconds of one run; emptying the cache is not among them."""
        self.clear()
        begin = time.perf_counter()
        run_job(job, self.backend)
        return time.perf_counter() - begin

    def record(self, job: Job) -> Recording:
        """The run that all engines replay."""
        self.clear()
        recorder = RecordingBackend(self.backend)
        run_job(job, as_backend(recorder))
        return recorder.recording()

    def count(self, job: Job) -> Counted:
        """One run with counters and stopwatches on it."""
        self.clear()
        core = self.loaded.engine.core
        runner = core.runner
        assert isinstance(runner, HostRunner), "counted on a CPU"
        model = runner.model
        watch = Stopwatch()
        counting = _CountingModel(model)
        runner.model = counting
        watch.method(core, "step", "step")
        watch.method(core.scheduler, "plan", "plan")
        watch.method(counting, "forward", "forward")
        watch.method(runner.inputs, "make", "step_input")
        watch.function("sgc_runtime.engine.host_runner", "choose", "sampling")
        watch.function("sgc_runtime.engine.host_runner", "next_token_logprobs", "scoring")
        before = dict(self.backend.stats())
        begin = time.perf_counter()
        try:
            states = run_job(job, self.backend)
        finally:
            total = time.perf_counter() - begin
            watch.undo()
            runner.model = model
        after = self.backend.stats()
        made, asked = (
            after[name] - before.get(name, 0) for name in ("completion_tokens", "prompt_tokens")
        )
        scored = sum(len(s.meta(n)["scores"]) for s in states for n in ("ending",) if n in s)
        return Counted(asked, counting.tokens, made, scored, _shares(total, watch.seconds))


def run_job(job: Job, backend: Any, parallel: int | None = None) -> list[Any]:
    """The states of all rows, `parallel` at a time (all at once); EOS never ends a gen."""
    runnable: Runnable = job.program
    states = runnable.run_batch(
        list(job.rows),
        backend=backend,
        parallel=parallel or len(job.rows),
        options={"ignore_eos": True, "temperature": 0.0},
    )
    for state in states:
        error = state.error()
        if error is not None:
            raise error
    return states


def _shares(total: float, spent: Mapping[str, float]) -> dict[str, float]:
    """Seconds of the parts of a step, of the rest of the steps, and of all that is outside."""
    inside = dict(spent)
    step = inside.pop("step", 0.0)
    return {
        **{name: round(value, 4) for name, value in inside.items()},
        "rest_of_steps": round(step - sum(inside.values()), 4),
        "outside_steps": round(total - step, 4),
        "total": round(total, 4),
    }


class _CountingModel:
    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.tokens = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def forward(self, batch: Any, kv: Any) -> Any:
        self.tokens += len(batch.input_ids)
        return self._inner.forward(batch, kv)
