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
from support.random_programs import ProgramWriter, load_text
from support.tracer import outcome

import sgc
from sgc.compile import CompiledProgram
from sgc.lang.tools import noting_tools
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
    try:
        program = traced(load_text(ProgramWriter(seed).text()))
    except sgc.CompileError:
        return
    for names in SETS:
        found = changed(program, names)
        for row in ROWS if found is not None else ():
            before, after = run(program, row), run(found, row)
            assert after == before, (seed, names, row)


def run(program: Any, row: dict[str, Any]) -> dict[str, Any]:
    return outcome(program, dict(row), "compiled")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_the_same_after_each_pass(seed: int) -> None:
    check(seed)


@pytest.mark.long
def test_many_random_programs_are_the_same_after_each_pass() -> None:
    for seed in range(1500):
        check(seed)
