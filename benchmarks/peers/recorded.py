"""One run of a suite as ids and lengths, and its file, which any machine can replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common.recording import RecordedCall, Recording, RecordingBackend, RecordingStream
from sgc.eval.registry import MODULES
from sgc.eval.suite import Row, Suite
from sgc.program import Program
from sgc_ir.params import CallResult
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.executor.backend import Backend, BackendStream, Call

_OWN = ("mode", "parallel")  # defaults of a suite that the run settles itself


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A recorded run.

    Attributes:
        suite: its name.
        rows: how many the run had.
        recording: its calls, parents before their children.
    """

    suite: str
    rows: int
    recording: Recording

    def facts(self) -> dict[str, Any]:
        """What any engine has to do, in numbers."""
        calls = self.recording.calls
        return {
            "rows": self.rows,
            "calls": len(calls),
            "selects": sum(bool(call.choices) for call in calls),
            "waves": 1 + max((call.wave for call in calls), default=-1),
            "prompt_tokens": self.recording.prompt_tokens,
            "new_tokens": self.recording.new_tokens,
            "scored_choices": self.recording.num_scored,
            "must_compute": list(self.recording.must_compute()),
        }

    def head(self, number: int) -> SuiteRun:
        """The first `number` calls; parents stand before their children."""
        return SuiteRun(self.suite, 0, Recording(self.recording.calls[:number]))

    def write(self, path: Path) -> None:
        content = {"suite": self.suite, "rows": self.rows}
        calls = [asdict(call) for call in self.recording.calls]
        path.write_text(json.dumps({**content, "calls": calls}) + "\n", encoding="utf-8")


def read_run(path: Path) -> SuiteRun:
    """A run from its file. Raises ValueError for another file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        calls = tuple(_call(found) for found in content["calls"])
        return SuiteRun(content["suite"], content["rows"], Recording(calls))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} holds no recorded run; record one with --record") from error


def _call(found: Mapping[str, Any]) -> RecordedCall:
    tuples = {name: tuple(found[name]) for name in ("prompt", "output")}
    choices = tuple(tuple(ids) for ids in found["choices"])
    return RecordedCall(**{**found, **tuples, "choices": choices})


def program_in(suite: Suite) -> Program:
    """The program of a suite."""
    module = import_module(f"sgc.eval.suites.{MODULES[suite.name]}")
    program: Program = getattr(module, suite.program)
    return program


def run_suite(suite: Suite, rows: Sequence[Row], backend: Any, parallel: int) -> list[Any]:
    """The states of all rows, `parallel` at a time, with the suite's own settings.

    Raises the error of the first row that has one.
    """
    options = {name: value for name, value in suite.defaults.items() if name not in _OWN}
    states = program_in(suite).run_batch(
        [row.arguments for row in rows],
        backend=backend,
        parallel=parallel,
        options={"temperature": 0.0, **options},
    )
    for state in states:
        error = state.error()
        if error is not None:
            raise error
    return states


def record_suite(
    suite: Suite, rows: Sequence[Row], backend: LocalBackend, parallel: int
) -> SuiteRun:
    """Run the suite once and note the ids of every call."""
    recorder = NotingBackend(backend)
    run_suite(suite, rows, as_backend(recorder), parallel)
    return SuiteRun(suite.name, len(rows), recorder.recording())


def as_backend(backend: NotingBackend) -> Backend:
    """The same object, for the type checker."""
    return backend


class NotingBackend(RecordingBackend):
    """Notes the prompt before a call runs: one that ends at a stop text, or under a constraint,
    may leave other ids in the stream than the model gave."""

    def open(self) -> BackendStream:
        stream = self._inner.open()
        assert isinstance(stream, LocalStream)
        return NotingStream(self, stream)


class NotingStream(RecordingStream):
    """A stream of a `NotingBackend`."""

    async def generate(self, call: Call) -> list[CallResult]:
        self._inner.encode()
        prompt = tuple(self._inner.ids)
        results = await self._inner.generate(call)
        for result in results:
            # One at least: a call that ended at once still asked the model for a token.
            output = tuple(result.token_ids) or (0,)
            self._owner.calls.append(RecordedCall(prompt, output, heat=call.params.temperature))
        return results

    def fork(self) -> BackendStream:
        inner = self._inner.fork()
        assert isinstance(inner, LocalStream)
        return NotingStream(self._owner, inner)
