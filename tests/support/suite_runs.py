"""Runs of evaluation suites on a scripted backend, compiled beside interpreted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from sgc.eval.data import BUILTIN
from sgc.eval.registry import MODULES, find_suite
from sgc.eval.suite import LoadOptions, Row, Suite
from sgc.program import Program
from sgc.testing import ScriptedBackend
from sgc_ir.params import SamplingParams

Reply = Callable[[str, SamplingParams], str]


def builtin_rows(name: str, **options: Any) -> list[Row]:
    """The rows of a suite from the small inputs of the repository."""
    suite = find_suite(name)
    return suite.load(BUILTIN / suite.folder, LoadOptions(**options))


def program_of(suite: Suite) -> Program:
    """The LM program of a suite."""
    program = getattr(import_module(f"sgc.eval.suites.{MODULES[suite.name]}"), suite.program)
    assert isinstance(program, Program)
    return program


def run_both(
    name: str, rows: Sequence[Row], reply: Reply, **backend: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Records and calls of the compiled run, after they were found equal to those interpreted."""
    records, calls = _run(name, rows, reply, "compiled", **backend)
    assert (records, calls) == _run(name, rows, reply, "interpreted", **backend)
    return records, calls


def _run(
    name: str, rows: Sequence[Row], reply: Reply, mode: str, **backend: Any
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    suite = find_suite(name)
    answers = ScriptedBackend(reply, **backend)
    arguments = [row.arguments for row in rows]
    states = program_of(suite).run_batch(arguments, backend=answers, mode=mode, temperature=0.0)
    assert [state.error() for state in states] == [None] * len(rows)
    records = [{"vars": dict(state.vars), "value": state.value} for state in states]
    return records, sorted(answers.calls, key=lambda call: (call["prompt"], call["node"]))
