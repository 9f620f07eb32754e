"""Branches where something fails, or was not set: what stops, and what the row says of it."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import call_order, main_program, prompts, run_graph

from sgc_ir.errors import GenerationError, ProgramError
from sgc_runtime.backends.scripted import ScriptedBackend


def test_a_failed_predicate_stops_the_streams_of_its_arms_only() -> None:
    graph = main_program(
        """
  %0 = Fork ordinal=0 width=2
  %1 = GetForkItem fork=%0 index=0
  %2 = GetForkItem fork=%0 index=1
  %3 = ConstantText in %1 text="bad"
  %4 = Gen in %1 name="v" ordinal=0
  %5 = Branch cond=%4
  %6 = RoleBegin if %5 role="user"
  %7 = ConstantText if %5 text="yes"
  %8 = RoleEnd if %5 role="user"
  %9 = Gen if not %5 name="w" ordinal=0
  %10 = Merge values=("a", %9) tokens=((%5, True), (%5, False))
  %11 = Gen name="after" ordinal=1
  %12 = ConstantText in %2 text="good"
  %13 = Gen in %2 name="v" ordinal=0
  %14 = Return value=%10 vars={"other": %13, "w": %10, "after": %11}
"""
    )
    backend = ScriptedBackend(
        lambda p, _: p, fail=lambda p: RuntimeError("no") if p == "bad" else None
    )
    state = run_graph(graph, backend)
    error = state.error()
    assert isinstance(error, GenerationError)
    assert error.node == "f0[0]/g0"
    assert set(call_order(backend)) == {"f0[0]/g0", "f0[1]/g0"}
    assert state.vars == {"other": "good"}
    with pytest.raises(GenerationError, match=r"f0\[0\]/g0"):
        _ = state["after"]


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [("ValueError", ValueError, "too b"), ("TooLong", ProgramError, "TooLong: too b")],
)
def test_an_arm_that_raises_fails_the_row(kind: str, error: type[Exception], text: str) -> None:
    graph = main_program(
        f"""
  %0 = Gen name="v" ordinal=0
  %1 = Expr fn="==" args=(%0, "b")
  %2 = Branch cond=%1
  %3 = Expr if %2 fn="+" args=("too ", %0)
  %4 = Expr if %2 fn="fail" args=("{kind}", %3)
  %5 = ConstantText if not %2 text="."
  %6 = Gen if not %2 name="w" ordinal=1
  %7 = Return if not %2 value=%6 vars={{"v": %0}}
"""
    )
    good = run_graph(graph, ScriptedBackend(lambda *_: "a"))
    assert (good.error(), good.value, good.vars) == (None, "a", {"v": "a"})
    backend = ScriptedBackend(lambda *_: "b")
    bad = run_graph(graph, backend)
    assert type(bad.error()) is error
    assert str(bad.error()) == text
    assert bad.value is None
    assert call_order(backend) == ["g0"]


def test_a_sub_program_that_raises_hands_its_error_on() -> None:
    sub = """
graph sub(x) {
  %0 = Argument name="x"
  %1 = Branch cond=%0
  %2 = Expr if %1 fn="fail" args=("KeyError", "k")
  %3 = ConstantText if not %1 text="s"
  %4 = Gen if not %1 name="v" ordinal=0
  %5 = Return if not %1 value=%4 vars={"v": %4}
}
"""
    graph = main_program(
        """
  %0 = Argument name="x"
  %1 = SubProgram callee="sub" args={"x": %0} ordinal=0
  %2 = Variable name="" of=%1 field="result"
  %3 = Variable name="v" of=%1
  %4 = Variable name="" of=%1 field="text"
  %5 = Expr fn="concat" args=(%2, %3, %4) append=True
  %6 = Gen name="w" ordinal=0
  %7 = Return value=%6 vars={}
""",
        "x",
        sub,
    )
    backend = ScriptedBackend(lambda *_: "r")
    assert run_graph(graph, backend, {"x": False}).value == "r"
    assert prompts(backend) == {"c0/g0": "s", "g0": "rrsr"}
    backend = ScriptedBackend(lambda *_: "r")
    error = run_graph(graph, backend, {"x": True}).error()
    assert isinstance(error, KeyError)
    assert backend.calls == []


def test_handles_of_both_arms_are_read_as_one() -> None:
    sub = """
graph sub(x) {
  %0 = Argument append=True name="x"
  %1 = Gen name="v" ordinal=0
  %2 = Return value=%1 vars={"v": %1}
}
"""
    graph = main_program(
        """
  %0 = Argument name="x"
  %1 = Branch cond=%0
  %2 = SubProgram if %1 callee="sub" args={"x": "one"} ordinal=0
  %3 = SubProgram if not %1 callee="sub" args={"x": "two"} ordinal=0
  %4 = Merge values=(%2, %3) tokens=((%1, True), (%1, False))
  %5 = Variable name="v" of=%4
  %6 = Variable name="" of=%4 field="text"
  %7 = Return value=(%5, %6) vars={"v": %5}
""",
        "x",
        sub,
    )
    for x, text in [(True, "one"), (False, "two")]:
        backend = ScriptedBackend(lambda p, _: f"<{p}>")
        assert run_graph(graph, backend, {"x": x}).value == (f"<{text}>", f"{text}<{text}>")
        assert prompts(backend) == {"c0/g0": text}


def test_reading_what_the_path_did_not_set_names_the_variable() -> None:
    graph = main_program(
        """
  %0 = Argument name="x"
  %1 = Branch cond=%0
  %2 = Gen if %1 name="v" ordinal=0
  %3 = Merge values=(%2, UNSET) tokens=((%1, True), (%1, False))
  %4 = Variable name="v" of=%3 append=True
  %5 = Gen name="w" ordinal=1
  %6 = Return value=%5 vars={"v": %3}
""",
        "x",
    )
    backend = ScriptedBackend(lambda *_: "r")
    assert run_graph(graph, backend, {"x": True}).vars == {"v": "r"}
    state = run_graph(graph, backend, {"x": False})
    error = state.error()
    assert isinstance(error, GenerationError)
    assert "variable 'v' is not set in the stream" in str(error)
    assert "v" not in state


@pytest.mark.parametrize(("taken", "value"), [("ss", ["s", "s"]), ("", None), ("s", "branch")])
def test_gather_takes_what_all_branches_set(taken: str, value: Any) -> None:
    """Variables that all branches, none, or some of them set."""
    graph = main_program(
        """
  %0 = Argument name="taken"
  %1 = Fork ordinal=0 width=2
  %2 = GetForkItem fork=%1 index=0
  %3 = GetForkItem fork=%1 index=1
  %4 = Expr fn="len" args=(%0,)
  %5 = Expr fn=">" args=(%4, 0)
  %6 = Expr fn=">" args=(%4, 1)
  %7 = Branch cond=%5
  %8 = Expr in %2 if %7 fn="set" args=("v", "s")
  %9 = Merge values=(%8, UNSET) tokens=((%7, True), (%7, False))
  %10 = Branch cond=%6
  %11 = Expr in %3 if %10 fn="set" args=("v", "s")
  %12 = Merge values=(%11, UNSET) tokens=((%10, True), (%10, False))
  %13 = Join fork=%1 mode="gather" vars={"v": [%9, %12]}
  %14 = Return value=None vars={"v": %13}
""",
        "taken",
    )
    state = run_graph(graph, None, {"taken": taken})
    if value == "branch":
        assert "variable 'v' is not set in branch f0[1]" in str(state.error())
    else:
        assert state.error() is None
        assert state.vars == ({} if value is None else {"v": value})
