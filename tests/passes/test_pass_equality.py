"""Every pass, alone and together: the program makes the same calls and gives the same result.

Also where calls fail, and end in another order than they begin.

The oracle is the graph as it was traced; `tests/shapes` compares that with the interpreter.
"""

from __future__ import annotations

from dataclasses import replace
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
    sets = [(names, changed(program, names)) for names in SETS]
    rows = [(row, program.for_rows(row)) for row in (known, {"q": "yes"}, {"xs": known["xs"]})]
    for script in range(3):
        before = scripted(program, known, script)
        for what, found in (*sets, *rows):
            if found is not None:
                assert scripted(found, known, script, shuffled=script > 0) == before, (seed, what)
    check_opt_ins(seed, program, known)


def check_opt_ins(seed: int, program: CompiledProgram, row: dict[str, Any]) -> None:
    """Under --merge and --outputs all but the number of calls stays; a row of which a call fails
    may then end well, and only then be another one."""
    for names in ("merge",), (*defaults(), "merge"), ("dead",):
        graph = program.graph
        if names == ("dead",):
            graph = replace(graph, outputs=tuple(graph.graph.nodes[-1].attrs["vars"])[:1])
        found, _ = run_passes(graph, names, check=True)
        if found is graph:
            continue
        other = CompiledProgram(found, program._tools.values())
        for script in (0, 1):
            before, after = (scripted(p, row, script, shuffled=True) for p in (program, other))
            if len(before) == len(after) == 5 and names != ("dead",):
                assert after[1:] == before[1:], (seed, names, script)
            elif len(before) == len(after) == 5:
                assert after[1] == before[1], (seed, names, script)
                assert after[3:] == before[3:], (seed, names, script)
            else:
                assert names == ("dead",), (seed, names, script)
                assert len(before) == 2, (seed, names, script)


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


def scripted(
    program: CompiledProgram, row: dict[str, Any], script: int, shuffled: bool = False
) -> Any:
    """What a row does under a script. Script 2 lets calls fail; `shuffled` calls end in another
    order than they begin."""

    def reply(prompt: str, params: Any) -> str:
        return ("yes", "no", "a", "b", "7", "yes no")[pick(prompt, script) % 6]

    def fail(prompt: str) -> Exception | None:
        return RuntimeError("told to") if script == 2 and pick(prompt, "fail") % 9 == 0 else None

    def delay(prompt: str) -> float:
        return pick(prompt, script, "delay") % 4 * 0.001 if shuffled else 0.0

    backend = ScriptedBackend(reply, select=scores, fail=fail, delay=delay)
    (state,) = program.run_batch([row], backend=backend)
    error = state.error()
    if error is not None:
        return type(error).__name__, str(error)
    made = sorted(repr(call) for call in backend.calls)
    return made, repr(state.value), repr(state.vars), state.text(), state.messages()


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_the_same_after_each_pass(seed: int) -> None:
    check(seed)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_control_flow_is_the_same_after_each_pass(seed: int) -> None:
    check_branches(seed)


@pytest.mark.long
def test_many_random_programs_are_the_same_after_each_pass() -> None:
    for seed in range(1500):
        check(seed)
        check_branches(seed)
