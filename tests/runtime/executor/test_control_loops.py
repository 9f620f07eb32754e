"""Loops that carry state, loops that passes leave, and loops that append to the stream around."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import call_order, main_program, prompts, run_graph

from sgc_ir.errors import GenerationError
from sgc_ir.graph import Program
from sgc_runtime.backends.scripted import ScriptedBackend

SLOW = 0.15


def accumulating(kind: str) -> Program:
    """`for x in xs: n += 1; s += x + gen(); last = gen`, perhaps with an exit."""
    return main_program(
        f"""
  %0 = Argument name="xs"
  %1 = Loop over=(%0,) item_params=("x",) index_param="i" captures={{}}
      carried={{"n": 10, "last": UNSET}} body b(x, i, n, last) {{
    %0 = Argument append=True name="x"
    %1 = Argument name="n"
    %2 = Gen name="v" ordinal=%1
    %3 = Expr fn="+" args=(%1, 1)
    %4 = Expr fn="==" args=(%2, "stop")
    %5 = Branch cond=%4
    %6 = ConstantText if %5 text="!"
    %7 = Merge values=(1, 0) tokens=((%5, True), (%5, False))
    %8 = Return value=%2 vars={{"n": %3, "last": %2}}{kind}
  }}
  %2 = ConstantText text="."
  %3 = Variable name="n" of=%1 field="output"
  %4 = Variable name="last" of=%1 field="output"
  %5 = Variable name="" of=%1 field="kind"
  %6 = Expr fn="len" args=(%1,)
  %7 = Gen name="end" ordinal=%3
  %8 = Variable name="last" of=%4 field="meta"
  %9 = Return value=(%1, %3, %5, %6, %8) vars={{"last": %4}}
""",
        "xs",
    )


def reply(prompt: str, _: object) -> str:
    return "stop" if prompt.endswith("s") else "r"


def test_carried_state_goes_from_pass_to_pass() -> None:
    backend = ScriptedBackend(reply)
    state = run_graph(accumulating(""), backend, {"xs": ["a", "s", "b"]})
    assert state.error() is None
    assert state.value[:4] == (["r", "stop", "r"], 13, 0, 3)
    assert state.value[4]["finish_reason"] == "eos"
    assert state.vars == {"last": "r"}
    assert prompts(backend) == {
        "g10": "a",
        "g11": "ars",
        "g12": "arsstop!b",
        "g13": "arsstop!br.",
    }


def test_a_pass_may_leave_the_loop() -> None:
    backend = ScriptedBackend(reply)
    state = run_graph(accumulating(" kind=%7"), backend, {"xs": ["a", "s", "b"]})
    assert state.value[:4] == (["r", "stop"], 12, 1, 2)
    assert state.vars == {"last": "stop"}
    assert prompts(backend) == {"g10": "a", "g11": "ars", "g12": "arsstop!."}


@pytest.mark.parametrize("kind", ["", " kind=%7"])
def test_no_passes_leave_the_entries(kind: str) -> None:
    backend = ScriptedBackend(reply)
    state = run_graph(accumulating(kind), backend, {"xs": []})
    error = state.error()
    assert "variable 'last' is not set" in str(error)  # its metadata is read
    assert prompts(backend) == {"g10": "."}
    assert state.vars == {}


def bounded(limit: str) -> Program:
    """`for _ in s.loop(max=limit)` with a counter."""
    return main_program(
        f"""
  %0 = Argument name="limit"
  %1 = Loop over=() item_params=() index_param=None captures={{}} max={limit}
      carried={{"n": 0}} body b(n) {{
    %0 = Argument name="n"
    %1 = Gen name="v" ordinal=%0
    %2 = Expr fn="+" args=(%0, 1)
    %3 = Return value=%1 vars={{"n": %2}}
  }}
  %2 = Variable name="n" of=%1 field="output"
  %3 = Return value=%2 vars={{}}
""",
        "limit",
    )


@pytest.mark.parametrize(("limit", "passes"), [(3, 3), (0, 0), (-2, 0)])
def test_the_bound_may_be_known_at_run_time_only(limit: int, passes: int) -> None:
    backend = ScriptedBackend(lambda *_: "r")
    state = run_graph(bounded("%0"), backend, {"limit": limit})
    assert (state.error(), state.value) == (None, passes)
    assert call_order(backend) == [f"g{i}" for i in range(passes)]


@pytest.mark.parametrize("limit", ["3", 1.5, None])
def test_a_bound_that_is_no_number_fails_the_row(limit: Any) -> None:
    graph = bounded("%0")
    state = run_graph(graph, ScriptedBackend(lambda *_: "r"), {"limit": limit})
    error = state.error()
    assert isinstance(error, TypeError)
    assert "largest number of passes" in str(error)


INDEPENDENT = """
  %0 = Argument name="xs"
  %1 = Loop over=(%0,) item_params=("x",) index_param="i" captures={{}}
      carried={{"all": ""}} body b(x, i, all) {{
    %0 = Argument name="x"
    %1 = Argument name="i"
    %2 = Argument name="all"
    %3 = Fork ordinal=%1 width=1
    %4 = GetForkItem fork=%3 index=0
    %5 = Expr in %4 fn="text" args=(%0,) append=True
    %6 = Gen in %4 name="v" ordinal=0
    %7 = Expr fn="==" args=(%6, "more")
    %8 = Branch cond=%7
    %9 = Gen in %4 if %8 name="w" ordinal=1
    %10 = Merge values=(%9, %6) tokens=((%8, True), (%8, False))
    %11 = Expr fn="+" args=(%2, %10)
    %12 = Merge values=(1, 0) tokens=((%8, True), (%8, False))
    %13 = Return value=%10 vars={{"all": %11}}{kind}
  }}
  %2 = Variable name="all" of=%1 field="output"
  %3 = Expr fn="getitem" args=(%1, 1)
  %4 = Expr fn="text" args=(%3,) append=True
  %5 = Gen name="second" ordinal=0
  %6 = Return value=(%2, %5) vars={{}}
"""


def test_passes_without_an_exit_run_side_by_side() -> None:
    graph = main_program(INDEPENDENT.format(kind=""), "xs")
    backend = ScriptedBackend(
        lambda p, _: "more" if p in "ac" else f"{len(p)}",
        delay=lambda p: SLOW if p == "a" else 0.0,
    )
    state = run_graph(graph, backend, {"xs": ["a", "b", "c"]})
    assert state.value == ("515", "1")
    calls = call_order(backend)
    assert set(calls[:3]) == {"f0[0]/g0", "f1[0]/g0", "f2[0]/g0"}
    assert set(calls[3:5]) == {"g0", "f2[0]/g1"}  # an item of the list, while others are to come
    assert calls[5:] == ["f0[0]/g1"]


def test_passes_with_an_exit_wait_for_how_the_last_one_ended_only() -> None:
    graph = main_program(INDEPENDENT.format(kind=" kind=%12"), "xs")
    backend = ScriptedBackend(
        lambda p, _: "more" if p == "c" else f"{len(p)}",
        delay=lambda p: SLOW if p == "cmore" else 0.0,
    )
    state = run_graph(graph, backend, {"xs": ["a", "b", "c", "d"]})
    assert state.value == ("115", "1")
    assert call_order(backend) == ["f0[0]/g0", "f1[0]/g0", "f2[0]/g0", "f2[0]/g1", "g0"]


def test_a_pass_that_fails_ends_a_loop_that_may_be_left() -> None:
    graph = main_program(INDEPENDENT.format(kind=" kind=%12"), "xs")
    backend = ScriptedBackend(
        lambda p, _: "r", fail=lambda p: RuntimeError("no") if p == "b" else None
    )
    state = run_graph(graph, backend, {"xs": ["a", "b", "c"]})
    error = state.error()
    assert isinstance(error, GenerationError)
    assert error.node == "f1[0]/g0"
    assert call_order(backend) == ["f0[0]/g0", "f1[0]/g0"]


def test_a_captured_branch_is_appended_to_pass_by_pass() -> None:
    """The loop stands in one stream and appends to another; what follows there comes later."""
    graph = main_program(
        """
  %0 = Argument name="xs"
  %1 = Fork ordinal=0 width=2
  %2 = GetForkItem fork=%1 index=0
  %3 = GetForkItem fork=%1 index=1
  %4 = ConstantText in %2 text="s"
  %5 = Loop over=(%0,) item_params=("x",) index_param="i" captures={"f": %2} body b(x, i, f) {
    %0 = Argument name="x"
    %1 = Argument name="i"
    %2 = Argument name="f"
    %3 = Expr in %2 fn="text" args=(%0,) append=True
    %4 = Gen in %2 name="v" ordinal=%1
    %5 = Branch cond=%1
    %6 = ConstantText in %2 if %5 text="!"
    %7 = Return value=%4 vars={}
  }
  %6 = Gen in %2 name="end" ordinal=9
  %7 = Gen in %3 name="other" ordinal=0
  %8 = Variable name="v" of=%2
  %9 = Return value=(%6, %8) vars={}
""",
        "xs",
    )
    backend = ScriptedBackend(
        lambda p, _: f"{len(p)}", delay=lambda p: SLOW if p.startswith("s") else 0.0
    )
    state = run_graph(graph, backend, {"xs": ["a", "b"]})
    assert state.value == ("6", "4")
    assert "f0[1]/g0" in call_order(backend)[:2]  # the other stream does not wait
    assert prompts(backend) == {
        "f0[1]/g0": "",
        "f0[0]/g0": "sa",
        "f0[0]/g1": "sa2b",
        "f0[0]/g9": "sa2b4!",
    }


WALKED = """
  %0 = Argument name="items"
  %1 = Fork ordinal=0 items=%0
  %2 = Loop over=(%1,) item_params=("f",) index_param=None captures={"forks": %1}
      body one(f, forks) {
    %0 = Argument name="f"
    %1 = Argument name="forks"
    %2 = GetForkItem fork=%1 index=%0
    %3 = Variable in %2 name="" of=%2 field="item" append=True
    %4 = Gen in %2 name="v" ordinal=0
    %5 = Expr fn="==" args=(%4, "yes")
    %6 = Branch cond=%5
    %7 = ConstantText in %2 if %6 text="[why]"
    %8 = Gen in %2 if %6 name="v" ordinal=1
    %9 = Merge values=(%8, "no") tokens=((%6, True), (%6, False))
    %10 = Return value=%9 vars={}
  }
  %3 = Loop over=(%1,) item_params=("f",) index_param=None captures={"forks": %1} after=%2
      body two(f, forks) {
    %0 = Argument name="f"
    %1 = Argument name="forks"
    %2 = GetForkItem fork=%1 index=%0
    %3 = ConstantText in %2 text="|"
    %4 = Gen in %2 name="last" ordinal=5
    %5 = Variable name="v" of=%2
    %6 = Return value=(%4, %5) vars={}
  }
  %4 = Join fork=%1 mode="gather"
  %5 = Variable name="last" of=%4
  %6 = Variable name="v" of=%4
  %7 = Return value=(%2, %3, %5, %6) vars={}
"""


@pytest.mark.parametrize("exiting", [False, True])
def test_branches_of_run_time_number_branch_each_for_itself(exiting: bool) -> None:
    """A second loop over the branches goes on in those whose first predicate is known; where the
    main graph has a branch too, the same."""
    text = WALKED
    if exiting:
        head, _, tail = WALKED.partition("  %7 = Return")
        text = head + '  %7 = Branch cond=%0\n  %8 = ConstantText if not %7 text="none"\n'
        text += "  %9 = Return" + tail
    graph = main_program(text, "items")
    backend = ScriptedBackend(
        lambda p, _: "yes" if p in "ac" else f"{len(p)}",
        delay=lambda p: SLOW if p == "a" else 0.0,
    )
    state = run_graph(graph, backend, {"items": ["a", "b", "c"]})
    assert state.error() is None
    last, v = ["11", "3", "11"], ["9", "1", "9"]
    assert state.value == (
        ["9", "no", "9"],
        [(one, other) for one, other in zip(last, v, strict=True)],
        last,
        v,
    )
    calls = call_order(backend)
    assert set(calls[:3]) == {"f0[0]/g0", "f0[1]/g0", "f0[2]/g0"}
    assert set(calls[3:6]) == {"f0[1]/g5", "f0[2]/g1", "f0[2]/g5"}
    assert calls[6:] == ["f0[0]/g1", "f0[0]/g5"]


def test_one_branch_that_all_passes_append_to_keeps_their_order() -> None:
    graph = main_program(
        """
  %0 = Argument name="items"
  %1 = Fork ordinal=0 items=%0
  %2 = Loop over=(%1,) item_params=("f",) index_param=None captures={"forks": %1}
      body one(f, forks) {
    %0 = Argument name="f"
    %1 = Argument name="forks"
    %2 = GetForkItem fork=%1 index=%0
    %3 = GetForkItem fork=%1 index=0
    %4 = Variable in %2 name="" of=%2 field="item" append=True
    %5 = Expr fn="+" args=(%0, 1)
    %6 = Gen in %3 name="v" ordinal=%5
    %7 = Expr fn="==" args=(%6, "yes")
    %8 = Branch cond=%7
    %9 = ConstantText in %3 if %8 text="[yes]"
    %10 = Return value=%6 vars={}
  }
  %3 = Join fork=%1 mode="append"
  %4 = Gen name="end" ordinal=0
  %5 = Return value=%2 vars={}
""",
        "items",
    )
    backend = ScriptedBackend(lambda p, _: "yes" if len(p) < 3 else "no")
    state = run_graph(graph, backend, {"items": ["a", "b", "c"]})
    assert state.error() is None
    assert prompts(backend) == {
        "f0[0]/g1": "a",
        "f0[0]/g2": "ayes[yes]",
        "f0[0]/g3": "ayes[yes]no",
        "g0": "ayes[yes]nonobc",
    }


@pytest.mark.parametrize("appends", [True, False])
def test_a_loop_in_a_branch_that_also_reads_its_siblings(appends: bool) -> None:
    """Its stream and what it captures are reached through one gate."""
    text = "in %2 " if appends else ""
    inner = f"%2 = Expr in %1 fn={chr(34)}text{chr(34)} args=(%0,) append=True" if appends else ""
    number = 3 if appends else 2
    graph = main_program(
        f"""
  %0 = Argument name="items"
  %1 = Fork ordinal=0 items=%0
  %2 = GetForkItem fork=%1 index=0
  %3 = GetForkItem fork=%1 index=1
  %4 = Gen in %3 name="v" ordinal=0
  %5 = Loop {text}over=(%0,) item_params=("x",) index_param=None captures={{"f": %2, "g": %3}}
      body b(x, f, g) {{
    %0 = Argument name="x"
    %1 = Argument name="f"
    {inner}
    %{number} = Argument name="g"
    %{number + 1} = Variable name="v" of=%{number}
    %{number + 2} = Return value=%{number + 1} vars={{}}
  }}
  %6 = Gen in %2 name="w" ordinal=0
  %7 = Return value=(%5, %6) vars={{}}
""",
        "items",
    )
    backend = ScriptedBackend(lambda p, _: f"<{p}>")
    state = run_graph(graph, backend, {"items": ["a", "b"]})
    assert state.error() is None
    assert state.value == (["<>", "<>"], "<ab>" if appends else "<>")
