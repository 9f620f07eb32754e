"""Pruning: with arguments that decide branches put in, the graph gives what it gave."""

from __future__ import annotations

from typing import Any

import pytest
from shapes.replies import reply, select

import sgc
from sgc.compile import compile_spec
from sgc.testing import ScriptedBackend
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import run_passes
from sgc_ir.text import parse_program


@sgc.function
def chooses(s, q: str, style: str, deep: bool, n: int):
    s += q
    if style == "short":
        s += "Be short." + sgc.gen("a", max_tokens=1)
        tail = "!"
    elif style == "long":
        s += "Be long." + sgc.gen("a", max_tokens=3)
        if deep:
            s += "Deep." + sgc.gen("b", max_tokens=1)
        tail = s["a"]
    else:
        s += sgc.select("c", ["x", "y"])
        if s["c"] == "x":
            return "early"
        s.set("a", "none")
        tail = q
    for i in range(3):
        if i == n:
            break
        s += f"{i}" + sgc.gen("d", max_tokens=1)
    forks = s.fork(2)
    for f in forks:
        f += sgc.gen("e", max_tokens=1)
        if deep and style == "short":
            f += "more" + sgc.gen("f", max_tokens=1)
    return [tail, s["a"], s.get("b", "-"), [f["e"] for f in forks]]


def outcome(program: Any, row: dict[str, Any]) -> Any:
    backend = ScriptedBackend(reply, select=select)
    (state,) = program.run_batch([row], backend=backend)
    calls = sorted(f"{c['node']} {c['prompt']}" for c in backend.calls)
    error = state.error()
    result = str(error) if error else (state.value, state.vars, state.text(), state.messages())
    return calls, result


@pytest.mark.parametrize("style", ["short", "long", "other"])
@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize("n", [0, 2, 5])
def test_known_arguments_decide_branches(style: str, deep: bool, n: int) -> None:
    row = {"q": "Q", "style": style, "deep": deep, "n": n}
    program = compile_spec(chooses.spec)
    for names in (["style"], ["deep"], ["n"], ["style", "deep"], list(row)):
        found = program.for_rows({name: row[name] for name in names})
        assert outcome(found, row) == outcome(program, row), names


def test_what_is_decided_leaves_no_branch() -> None:
    program = compile_spec(chooses.spec).for_rows({"q": "Q", "style": "long", "deep": True, "n": 1})
    ops = [node.op for node in program.graph.walk()]
    assert Op.BRANCH not in ops
    assert Op.MERGE not in ops
    assert ops.count(Op.GEN) == 5


def test_a_variable_that_is_unset_for_certain() -> None:
    text = """
    program p
    graph p() {
      %0 = Branch cond=True
      %1 = Gen if not %0 name="v" ordinal=0
      %2 = Merge values=(UNSET, %1) tokens=((%0, True), (%0, False))
      %3 = Expr fn="default" args=(%2, "d")
      %4 = Expr fn="is_set" args=(%2,)
      %5 = Return value=[%3, %4] vars={"v": %2}
    }
    """
    found, _ = run_passes(parse_program(text), ["prune"], Context(), check=True)
    (last,) = found.graph.nodes
    assert dict(last.attrs) == {"value": ["d", False], "vars": {}}
    read = text.replace("      %4 = Expr", '      %4 = Variable name="v" of=%2\n      %5 = Expr')
    program = parse_program(
        read.replace("%5 = Return value=[%3, %4]", "%6 = Return value=[%3, %4]")
    )
    assert run_passes(program, ["prune"], Context(), check=True)[0] is program
