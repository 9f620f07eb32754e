"""Branches and merges: what runs, what does not, what waits for whom; graphs in the text form."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest
from support.executor import prompts, run_graph

from sgc_ir.errors import GenerationError, ProgramError
from sgc_ir.graph import Program
from sgc_ir.params import SamplingParams
from sgc_ir.text import parse_program
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import RunDefaults
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.node_stats import NodeTable
from sgc_runtime.executor.state import FinishedState

SLOW = 0.15


def program(nodes: str, params: str = "", more: str = "") -> Program:
    """A main graph of these nodes."""
    tools = 'tools {"save": "irreversible"}' if "tool=" in nodes + more else ""
    return parse_program(f"program main\n{tools}\ngraph main({params}) {{\n{nodes}\n}}\n{more}")


def order(backend: ScriptedBackend) -> list[str]:
    return [call["node"] for call in backend.calls]


EARLY = program(
    """
  %0 = ConstantText text="Q "
  %1 = Select name="related" ordinal=0 choices=("yes", "no")
  %2 = Expr fn="==" args=(%1, "no")
  %3 = Branch cond=%2
  %4 = ConstantText if not %3 text=" judge "
  %5 = Gen if not %3 name="grade" ordinal=1 max_tokens=5
  %6 = Merge values=("unrelated", %5) tokens=((%3, True), (%3, False))
  %7 = Merge values=(UNSET, %5) tokens=((%3, True), (%3, False))
  %8 = Return value=%6 vars={"related": %1, "grade": %7}
"""
)


@pytest.mark.parametrize("related", [True, False])
def test_an_early_return_ends_a_path(related: bool) -> None:
    backend = ScriptedBackend(lambda *_: "B", select=lambda _, __: [related, not related])
    nodes = NodeTable()
    state = run_graph(EARLY, backend, nodes=nodes)
    assert state.error() is None
    if related:
        assert (state.value, state.text()) == ("B", "Q yes judge B")
        assert state.vars == {"related": "yes", "grade": "B"}
        assert state.meta("grade")["finish_reason"] == "eos"
        assert prompts(backend) == {"g0": "Q ", "g1": "Q yes judge "}
        assert (nodes.started, nodes.dead) == (9, 0)
    else:
        assert (state.value, state.text()) == ("unrelated", "Q no")
        assert state.vars == {"related": "no"}
        assert "grade" not in state
        assert state.get("grade", "none") == "none"
        assert order(backend) == ["g0"]
        assert (nodes.started, nodes.dead) == (7, 2)


def test_one_row_after_another_takes_its_own_path() -> None:
    """What a run has found out stays with the run."""
    for related in (True, False, True):
        backend = ScriptedBackend(lambda *_: "B", select=lambda _, __, r=related: [r, not r])
        assert run_graph(EARLY, backend).value == ("B" if related else "unrelated")


def test_metadata_comes_from_the_arm_that_ran() -> None:
    graph = program(
        """
  %0 = Argument name="x"
  %1 = Branch cond=%0
  %2 = Gen if %1 name="v" ordinal=0 max_tokens=1
  %3 = Select if not %1 name="v" ordinal=1 choices=("a", "b")
  %4 = Merge values=(%2, %3) tokens=((%1, True), (%1, False))
  %5 = Variable name="v" of=%4 field="meta"
  %6 = Variable name="v" of=%4
  %7 = Return value=(%5, %6) vars={"v": %4}
""",
        "x",
    )
    backend = ScriptedBackend(lambda *_: "one two", select=lambda *_: [0.0, 1.0])
    meta, value = run_graph(graph, backend, {"x": True}).value
    assert (meta["finish_reason"], value) == ("length", "one")
    state = run_graph(graph, backend, {"x": False})
    assert (state.value[1], state["v"]) == ("b", "b")
    assert state.value[0]["scores"] == state.meta("v")["scores"] == [0.0, 1.0]


def test_streams_that_no_arm_touches_do_not_wait() -> None:
    """Three branches, the first with a slow predicate, and the parent that reads none of them."""
    arms = "\n".join(
        f"""
  %{i} = ConstantText in %{at} text="{name}"
  %{i + 1} = Gen in %{at} name="v" ordinal=0
  %{i + 2} = Expr fn="==" args=(%{i + 1}, "yes")
  %{i + 3} = Branch cond=%{i + 2}
  %{i + 4} = ConstantText in %{at} if %{i + 3} text="!"
  %{i + 5} = Gen in %{at} if %{i + 3} name="w" ordinal=1
  %{i + 6} = Merge values=(%{i + 5}, "no") tokens=((%{i + 3}, True), (%{i + 3}, False))
  %{i + 7} = Gen in %{at} name="z" ordinal=2"""
        for at, (i, name) in enumerate([(4, "s"), (12, "q"), (20, "r")], start=1)
    )
    graph = program(
        f"""
  %0 = Fork ordinal=0 width=3
  %1 = GetForkItem fork=%0 index=0
  %2 = GetForkItem fork=%0 index=1
  %3 = GetForkItem fork=%0 index=2{arms}
  %28 = Join fork=%0 mode="gather" vars={{"w": [%10, %18, %26]}}
  %29 = ConstantText text="p"
  %30 = Gen name="own" ordinal=0
  %31 = Variable name="w" of=%28
  %32 = Expr fn="text" args=(%31,) append=True
  %33 = Gen name="end" ordinal=1
  %34 = Return value=%31 vars={{}}
"""
    )
    backend = ScriptedBackend(
        lambda p, _: "yes" if p in "sr" else "x", delay=lambda p: SLOW if p == "s" else 0.0
    )
    state = run_graph(graph, backend)
    assert state.value == ["x", "no", "x"]
    calls = order(backend)
    assert set(calls[:4]) == {"f0[0]/g0", "f0[1]/g0", "f0[2]/g0", "g0"}
    assert calls[4:8] == ["f0[1]/g2", "f0[2]/g1", "f0[2]/g2", "f0[0]/g1"]
    assert set(calls[8:]) == {"f0[0]/g2", "g1"}
    assert prompts(backend)["g1"] == "px['x', 'no', 'x']"


def test_a_merge_waits_for_the_arm_that_ran_only() -> None:
    graph = program(
        """
  %0 = Fork ordinal=0 width=2
  %1 = GetForkItem fork=%0 index=0
  %2 = GetForkItem fork=%0 index=1
  %3 = ConstantText in %1 text="s"
  %4 = Gen in %1 name="v" ordinal=0
  %5 = Argument name="x"
  %6 = Branch cond=%5
  %7 = Merge values=(%4, "k") tokens=((%6, True), (%6, False))
  %8 = Expr in %2 fn="text" args=(%7,) append=True
  %9 = Gen in %2 name="w" ordinal=0
  %10 = Return value=(%4, %9) vars={}
""",
        "x",
    )
    for x, calls in [(True, ["s", "a"]), (False, ["k", "s"])]:
        backend = ScriptedBackend(lambda *_: "a", delay=lambda p: SLOW if p == "s" else 0.0)
        ended: list[str] = []
        run_graph(graph, backend, {"x": x}, on_event=lambda e, ended=ended: ended.append(e.stream))
        assert sorted(call["prompt"] for call in backend.calls) == sorted(calls)
        assert ended[-1] == ("f0[1]" if x else "f0[0]")


def test_ordinals_differ_by_path_and_so_do_seeds() -> None:
    graph = program(
        """
  %0 = Argument name="x"
  %1 = Branch cond=%0
  %2 = Gen if %1 name="v" ordinal=0
  %3 = Merge values=(1, 0) tokens=((%1, True), (%1, False))
  %4 = Gen name="w" ordinal=%3
  %5 = Fork if %1 ordinal=0 width=1
  %6 = GetForkItem if %1 fork=%5 index=0
  %7 = Gen in %6 if %1 name="v" ordinal=0
  %8 = Fork ordinal=%3 width=1
  %9 = GetForkItem fork=%8 index=0
  %10 = Gen in %9 name="z" ordinal=0
  %11 = Return value=None vars={}
""",
        "x",
    )
    seen: dict[str, Any] = {}
    for x in (True, False):
        backend = ScriptedBackend(lambda *_: "a")
        assert run_graph(graph, backend, {"x": x}).error() is None
        seen |= {f"{x} {call['node']}": call["params"] for call in backend.calls}
    assert set(seen) == {
        *("True g0", "True g1", "True f0[0]/g0", "True f1[0]/g0"),
        *("False g0", "False f0[0]/g0"),
    }


# -- failure


def test_a_failed_predicate_stops_the_streams_of_its_arms_only() -> None:
    graph = program(
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
    assert set(order(backend)) == {"f0[0]/g0", "f0[1]/g0"}
    assert state.vars == {"other": "good"}
    with pytest.raises(GenerationError, match=r"f0\[0\]/g0"):
        _ = state["after"]


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [("ValueError", ValueError, "too b"), ("TooLong", ProgramError, "TooLong: too b")],
)
def test_an_arm_that_raises_fails_the_row(kind: str, error: type[Exception], text: str) -> None:
    graph = program(
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
    assert order(backend) == ["g0"]


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
    graph = program(
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
    graph = program(
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
    graph = program(
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
    graph = program(
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


# -- events, deadlines


def test_events_come_from_nodes_that_run() -> None:
    events: list[Event] = []
    backend = ScriptedBackend(lambda *_: "B", select=lambda *_: [0.0, 1.0])
    run_graph(EARLY, backend, on_event=events.append)
    assert {(event.node, event.name) for event in events} == {("g0", "related")}


def test_tokens_of_dead_calls_are_no_longer_expected() -> None:
    """What a backend is told of the calls to come."""
    graph = program(
        """
  %0 = Gen name="a" ordinal=0 max_tokens=7
  %1 = Branch cond=%0
  %2 = Gen if not %1 name="b" ordinal=1 max_tokens=100
  %3 = Gen name="c" ordinal=2 max_tokens=10
  %4 = Gen name="d" ordinal=3 max_tokens=1
  %5 = Return value=None vars={}
"""
    )
    expected: list[Any] = []

    class Watching(ScriptedBackend):
        takes_hints = True

        def open(self) -> Any:
            stream = super().open()
            generate = stream.generate

            async def watched(call: Any) -> Any:
                expected.append(call.more_tokens)
                return await generate(call)

            stream.generate = watched
            return stream

    run_graph(graph, Watching(lambda *_: "x"))
    assert expected == [111, 1, 0]


PENDING = program(
    """
  %0 = Fork ordinal=0 width=2
  %1 = GetForkItem fork=%0 index=0
  %2 = GetForkItem fork=%0 index=1
  %3 = ConstantText in %1 text="s"
  %4 = Gen in %1 name="v" ordinal=0
  %5 = Branch cond=%4
  %6 = Gen in %2 if %5 name="w" ordinal=0
  %7 = Fork in %2 if %5 ordinal=0 width=2
  %8 = GetForkItem in %2 if %5 fork=%7 index=0
  %9 = Gen in %8 if %5 name="w" ordinal=0
  %10 = Merge values=(%9, "none") tokens=((%5, True), (%5, False))
  %11 = Loop over=() item_params=() index_param="i" captures={"w": %10} max=3
      carried={"n": 0} body b(i, w, n) {
    %0 = Argument name="i"
    %1 = Argument name="w"
    %2 = Expr fn="text" args=(%1,) append=True
    %3 = Gen name="x" ordinal=%0
    %4 = Branch cond=%3
    %5 = ConstantText if %4 text="!"
    %6 = Return value=%3 vars={"n": %3} kind=0
  }
  %12 = Gen name="end" ordinal=9
  %13 = SubProgram if not %5 callee="sub" args={"x": %10} ordinal=0
  %14 = Return value=%12 vars={"w": %10}
""",
    more="""
graph sub(x) {
  %0 = Argument append=True name="x"
  %1 = Gen name="v" ordinal=0
  %2 = Return value=%1 vars={"v": %1}
}
""",
)


@pytest.mark.parametrize("how", ["cancel", "expire"])
def test_a_row_ends_while_a_predicate_is_open(how: str) -> None:
    backend = ScriptedBackend(lambda *_: "x", delay=lambda p: 60.0 if p == "s" else 0.0)

    async def run() -> FinishedState:
        ctx = RunContext(backend, RunDefaults(SamplingParams()))
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, (lambda: ctx.expire(0.02)) if how == "expire" else task().cancel)
        return await execute(PENDING, {}, ctx)

    def task() -> asyncio.Task[Any]:
        found = asyncio.current_task()
        assert found is not None
        return found

    if how == "cancel":
        with pytest.raises(concurrent.futures.CancelledError):
            run_sync(run())
    else:
        state = run_sync(run())
        assert "longer than its deadline" in str(state.error())
        with pytest.raises(GenerationError):
            _ = state["w"]
    assert order(backend) == ["f0[0]/g0"]


def test_rows_of_one_program_run_side_by_side() -> None:
    backend = ScriptedBackend(
        lambda p, _: p[2:4], select=lambda p, _: [0.0, 1.0], delay=lambda p: (len(p) % 3) * 0.005
    )
    graph = program(
        """
  %0 = Argument append=True name="x"
  %1 = Gen name="v" ordinal=0
  %2 = Argument name="x"
  %3 = Expr fn="in" args=("a", %2)
  %4 = Expr fn="==" args=(%1, "bb")
  %5 = Branch cond=%3
  %6 = Branch if %5 cond=%4
  %7 = Gen if %6 name="w" ordinal=1
  %8 = Merge values=(%7, "not b", "not a")
      tokens=((%6, True), (%6, False), (%5, False))
  %9 = Return value=%8 vars={}
""",
        "x",
    )
    rows = ["aabb", "aacc", "bbbb", "aabb1", "cc"] * 4

    async def run() -> list[FinishedState]:
        contexts = [RunContext(backend, RunDefaults(SamplingParams()), row=i) for i in range(20)]
        pairs = zip(rows, contexts, strict=True)
        return list(await asyncio.gather(*[execute(graph, {"x": x}, ctx) for x, ctx in pairs]))

    states = run_sync(run())
    assert [state.value for state in states] == ["bb", "not b", "not a", "bb", "not a"] * 4
