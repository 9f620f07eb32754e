"""Every pass, alone and together: the program makes the same calls and gives the same result.

The oracle is the graph as it was traced; `tests/shapes` compares that with the interpreter.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes import calls, driver, failures, gallery, streams, texts  # noqa: F401 (the catalogue)
from shapes.catalog import SHAPES, Shape
from support.random_branches import BranchWriter
from support.random_programs import ProgramWriter, load_text
from support.tracer import outcome, pick, scores

import sgc
from sgc.compile import CompiledProgram
from sgc.lang.tools import noting_tools
from sgc.testing import ScriptedBackend
from sgc.trace.tracer import trace_program
from sgc_ir.passes.manager import defaults, run_passes

COMPILED = [s for s in SHAPES if s.refused is None]
SETS: list[tuple[str, ...]] = [*((name,) for name in defaults()), defaults()]
ROWS = (
    {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
    {"q": "", "n": 1, "xs": [], "ys": ["z"]},
    {"q": "FAIL", "n": 2, "xs": ["a", "b"], "ys": ["u"]},  # calls with this word in it fail
)


def traced(program: sgc.Program) -> CompiledProgram:
    with noting_tools() as tools:
        graph = trace_program(program.spec, program.spec.bound)
    return CompiledProgram(graph, tools.values())


def changed(program: CompiledProgram, names: tuple[str, ...]) -> CompiledProgram | None:
    """The program after the passes, or None where they leave it as it is."""
    graph, _ = run_passes(program.graph, names, check=True)
    if graph is program.graph:
        return None
    return CompiledProgram(graph, program._tools.values())


@pytest.mark.parametrize("shape", COMPILED, ids=lambda shape: shape.name)
def test_shape_is_the_same_after_each_pass(shape: Shape) -> None:
    program = traced(shape.program)
    for names in SETS:
        found = changed(program, names)
        if found is None:
            continue
        for row in shape.rows:
            before = driver.outcome(program, dict(row), "compiled")
            after = driver.outcome(found, dict(row), "compiled")
            assert after == before, names


def check(seed: int) -> None:
    program = traced_text(ProgramWriter(seed).text())
    for names in SETS if program is not None else ():
        found = changed(program, names)
        for row in ROWS if found is not None else ():
            assert run(found, row) == run(program, row), (seed, names, row)
    for row in ROWS if program is not None else ():
        assert run(program.for_rows(row), row) == run(program, row), (seed, "rows", row)


def check_branches(seed: int) -> None:
    """The same for programs with control flow, under scripts that take different paths."""
    program = traced_text(BranchWriter(seed).text())
    if program is None:
        return
    known = {"q": "yes", "xs": ["a", "yes"]}
    for script in range(3):
        before = scripted(program, known, script)
        for names in SETS:
            found = changed(program, names)
            if found is not None:
                assert scripted(found, known, script) == before, (seed, names, script)
        for row in known, {"q": "yes"}, {"xs": known["xs"]}:
            assert scripted(program.for_rows(row), known, script) == before, (seed, row, script)


def traced_text(text: str) -> CompiledProgram | None:
    try:
        return traced(load_text(text))
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return None


def run(program: Any, row: dict[str, Any]) -> dict[str, Any]:
    """The outcome; in a row that fails, what else was called is a matter of time."""
    found = outcome(program, dict(row), "compiled")
    return found if found["error"] is None else {**found, "calls": None}


def scripted(program: CompiledProgram, row: dict[str, Any], script: int) -> Any:
    def reply(prompt: str, params: Any) -> str:
        return ("yes", "no", "a", "b", "7", "yes no")[pick(prompt, script) % 6]

    backend = ScriptedBackend(reply, select=scores)
    (state,) = program.run_batch([row], backend=backend)
    error = state.error()
    if error is not None:
        return type(error).__name__, str(error)
    made = sorted(repr(call) for call in backend.calls)
    return made, repr(state.value), repr(state.vars), state.text(), state.messages()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_the_same_after_each_pass(seed: int) -> None:
    check(seed)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_random_control_flow_is_the_same_after_each_pass(seed: int) -> None:
    check_branches(seed)


@pytest.mark.long
def test_many_random_programs_are_the_same_after_each_pass() -> None:
    for seed in range(1500):
        check(seed)
        check_branches(seed)
