"""Tools under branches: in which arms they run, what they wait for, and in which order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.executor import main_program, run_graph

from sgc_ir.errors import GenerationError
from sgc_ir.graph import Program
from sgc_runtime.backends.scripted import ScriptedBackend

SLOW = 0.1
EFFECTS = {"look": "pure", "note": "repeatable", "save": "irreversible"}


class Desk:
    """Three tools that note their calls, when they begin."""

    def __init__(self, slow: tuple[Any, ...] = ()) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.slow = slow
        self.tools = {name: _Tool(self, name) for name in EFFECTS}


class _Tool:
    deadline = None
    retries = None

    def __init__(self, desk: Desk, name: str) -> None:
        self._desk, self.name, self.effect = desk, name, EFFECTS[name]

    async def fn(self, value: Any) -> Any:
        self._desk.calls.append((self.name, value))
        if value in self._desk.slow:
            await asyncio.sleep(SLOW)
        return value


def program(nodes: str, params: str = "", more: str = "") -> Program:
    return main_program(nodes, params, more, EFFECTS)


def test_tools_run_in_the_arm_that_is_taken() -> None:
    graph = program(
        """
  %0 = Gen name="v" ordinal=0
  %1 = Expr fn="==" args=(%0, "yes")
  %2 = Branch cond=%1
  %3 = Call if %2 tool="save" effect="irreversible" args=("in",) ordinal=1
  %4 = Call if not %2 tool="save" effect="irreversible" args=("out",) ordinal=1
  %5 = Call if not %2 tool="look" effect="pure" args=("out",) ordinal=2
  %6 = Merge values=(%3, %4) tokens=((%2, True), (%2, False))
  %7 = Call tool="save" effect="irreversible" args=(%6,) ordinal=3
  %8 = Return value=%7 vars={}
"""
    )
    for word, calls in [
        ("yes", [("save", "in"), ("save", "in")]),
        ("no", [("save", "out"), ("save", "out")]),
    ]:
        desk = Desk()
        state = run_graph(graph, ScriptedBackend(lambda *_, w=word: w), tools=desk.tools)
        assert state.error() is None
        assert [call for call in desk.calls if call[0] != "look"] == calls
        assert (("look", "out") in desk.calls) is (word == "no")


GUARDED = """
  %0 = Fork ordinal=0 width=2
  %1 = GetForkItem fork=%0 index=0
  %2 = GetForkItem fork=%0 index=1
  %3 = ConstantText in %1 text="s"
  %4 = Gen in %1 name="v" ordinal=0
  %5 = Branch cond=%4
  %6 = Expr if %5 fn="len" args=(%4,)
  %7 = Gen in %1 if not %5 name="w" ordinal=1
  %8 = Variable if not %5 name="w" of=%7
  %9 = Call tool="look" effect="pure" args=("early",) ordinal=0
  %10 = Call tool="save" effect="irreversible" args=("late",) ordinal=1
  %11 = Gen in %2 name="x" ordinal=0
  %12 = Variable name="x" of=%11
  %13 = Return value=None vars={}
"""


def test_an_irreversible_tool_waits_for_earlier_predicates() -> None:
    """Also for those of which nothing that it needs depends; later readings do not hold it."""
    desk = Desk()
    seen: list[str] = []

    def reply(prompt: str, _: object) -> str:
        seen.append(prompt)
        return "x"

    backend = ScriptedBackend(reply, delay=lambda p: SLOW if p == "s" else 0.0)
    state = run_graph(program(GUARDED), backend, tools=desk.tools)
    assert state.error() is None
    assert [name for name, _ in desk.calls] == ["look", "save"]
    assert seen == ["", "s"]


@pytest.mark.parametrize("broken", ["s", "sx"])
def test_it_does_not_run_where_python_would_have_stopped(broken: str) -> None:
    """At a predicate, or at a reading in the arm that is taken."""
    desk = Desk()
    graph = program(GUARDED.replace("if not %5", "if %5"))
    backend = ScriptedBackend(
        lambda *_: "x", fail=lambda p: RuntimeError("no") if p == broken else None
    )
    state = run_graph(graph, backend, tools=desk.tools)
    error = state.error()
    assert isinstance(error, GenerationError)
    assert error.node == ("f0[0]/g0" if broken == "s" else "f0[0]/g1")
    assert desk.calls == [("look", "early")]


def test_tools_with_effects_keep_program_order_over_passes_and_sub_programs() -> None:
    sub = """
graph sub(x) {
  %0 = Argument name="x"
  %1 = Expr fn="==" args=(%0, "b")
  %2 = Branch cond=%1
  %3 = Call if %2 tool="note" effect="repeatable" args=("sub",) ordinal=0
  %4 = Return value=None vars={}
}
"""
    graph = program(
        """
  %0 = Argument name="xs"
  %1 = Call tool="save" effect="irreversible" args=("first",) ordinal=0
  %2 = Loop over=(%0,) item_params=("x",) index_param="i" captures={}
      carried={"n": 0} body b(x, i, n) {
    %0 = Argument name="x"
    %1 = Argument name="i"
    %2 = Argument name="n"
    %3 = Expr fn="+" args=(%1, 1)
    %4 = Fork ordinal=%1 width=1
    %5 = GetForkItem fork=%4 index=0
    %6 = Expr in %5 fn="text" args=(%0,) append=True
    %7 = Gen in %5 name="v" ordinal=0
    %8 = Expr fn="==" args=(%7, "yes")
    %9 = Branch cond=%8
    %10 = Call if %9 tool="save" effect="irreversible" args=(%0,) ordinal=%3
    %11 = SubProgram callee="sub" args={"x": %0} ordinal=%1
    %12 = Variable name="" of=%11 field="result"
    %13 = Return value=None vars={"n": %3}
  }
  %3 = Variable name="n" of=%2 field="output"
  %4 = Call tool="save" effect="irreversible" args=(%3,) ordinal=9
  %5 = Return value=None vars={}
""",
        "xs",
        sub,
    )
    desk = Desk(slow=("first", "a"))
    backend = ScriptedBackend(
        lambda p, _: "no" if p == "c" else "yes", delay=lambda p: SLOW if p == "b" else 0.0
    )
    state = run_graph(graph, backend, {"xs": ["a", "b", "c", "d"]}, tools=desk.tools)
    assert state.error() is None
    assert [value for name, value in desk.calls if name == "save"] == ["first", "a", "b", "d", 4]
    assert desk.calls.count(("note", "sub")) == 1
