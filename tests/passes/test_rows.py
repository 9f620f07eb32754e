"""Row constants: equal to the graph that reads the argument, in bodies too."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import run_graph

from sgc.testing import ScriptedBackend
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import run_passes
from sgc_ir.text import parse_program

PROGRAM = parse_program("""
program p
graph p(x, ys, n: int) {
  %0 = Argument name="x"
  %1 = Argument name="ys"
  %2 = Argument name="n"
  %3 = Argument name="x" append=True
  %4 = Loop over=(%1,) item_params=("i",) index_param="k" captures={"c": %0} body p.loop(i, k, c) {
    %0 = Argument name="i"
    %1 = Argument name="c"
    %2 = Expr fn="concat" args=(%0, "-", %1)
    %3 = Return value=%2 vars={}
  }
  %5 = Expr fn=".join" args=(",", %4)
  %6 = Expr fn="text" args=(%5,) append=True
  %7 = Fork ordinal=0 width=%2
  %8 = Loop over=(%7,) item_params=("i",) index_param="k" captures={"f": %7, "c": %0} body p.l(i, k, f, c) {
    %0 = Argument name="k"
    %1 = Argument name="f"
    %2 = GetForkItem fork=%1 index=%0
    %3 = Argument name="c"
    %4 = Expr in %2 fn="text" args=(%3,) append=True
    %5 = Gen in %2 name="g" ordinal=0
    %6 = Return value=%5 vars={}
  }
  %9 = Return value=[%8, %0, %2] vars={}
}
""")  # noqa: E501


def result(program: Program, row: dict[str, Any]) -> Any:
    backend = ScriptedBackend(lambda prompt, params: f"<{prompt}>")
    state = run_graph(program, backend, row)
    calls = sorted((call["node"], call["prompt"]) for call in backend.calls)
    error = state.error()
    return (str(error) if error else (state.value, state.text())), calls


@pytest.mark.parametrize("names", ["x", "ys", "n", "x ys", "x n", "x ys n"])
@pytest.mark.parametrize("n", [2, 1])
def test_it_equals_the_graph_that_reads_the_argument(names: str, n: int) -> None:
    row = {"x": "X", "ys": ["a", "b"], "n": n}
    context = Context({name: row[name] for name in names.split()})
    found, _ = run_passes(PROGRAM, ["rows", "fold", "texts"], context, check=True)
    assert found is not PROGRAM
    assert result(found, row) == result(PROGRAM, row)


def test_a_width_that_fails_the_row_does_not_break_the_graph() -> None:
    row = {"x": "X", "ys": [], "n": 0}
    found, _ = run_passes(PROGRAM, ["rows", "fold"], Context(row), check=True)
    assert result(found, row)[0] == result(PROGRAM, row)[0] != ""


def test_nothing_reads_what_became_a_constant_everywhere() -> None:
    found, (report,) = run_passes(PROGRAM, ["rows"], Context({"x": "X"}), check=True)
    read = [n.attrs["name"] for n in found.walk() if n.op is Op.ARGUMENT]
    assert "x" not in read
    assert "c" not in read
    assert len(report.changes) == 4
    assert all(loop.attrs["captures"].keys() <= {"f"} for loop in found.walk() if loop.body)
