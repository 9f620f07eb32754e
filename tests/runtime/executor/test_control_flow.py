"""Branches and merges: what runs, what does not, what waits for whom; graphs in the text form."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest
from support.executor import call_order, main_program, prompts, run_graph

from sgc_ir.errors import GenerationError
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import RunDefaults
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.node_stats import NodeTable
from sgc_runtime.executor.state import FinishedState

SLOW = 0.15


EARLY = main_program(
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
        assert call_order(backend) == ["g0"]
        assert (nodes.started, nodes.dead) == (7, 2)


def test_one_row_after_another_takes_its_own_path() -> None:
    """What a run has found out stays with the run."""
    for related in (True, False, True):
        backend = ScriptedBackend(lambda *_: "B", select=lambda _, __, r=related: [r, not r])
        assert run_graph(EARLY, backend).value == ("B" if related else "unrelated")


def test_metadata_comes_from_the_arm_that_ran() -> None:
    graph = main_program(
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
    graph = main_program(
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
    calls = call_order(backend)
    assert set(calls[:4]) == {"f0[0]/g0", "f0[1]/g0", "f0[2]/g0", "g0"}
    assert calls[4:8] == ["f0[1]/g2", "f0[2]/g1", "f0[2]/g2", "f0[0]/g1"]
    assert set(calls[8:]) == {"f0[0]/g2", "g1"}
    assert prompts(backend)["g1"] == "px['x', 'no', 'x']"


def test_a_merge_waits_for_the_arm_that_ran_only() -> None:
    graph = main_program(
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
    graph = main_program(
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


# -- events, deadlines


def test_events_come_from_nodes_that_run() -> None:
    events: list[Event] = []
    backend = ScriptedBackend(lambda *_: "B", select=lambda *_: [0.0, 1.0])
    run_graph(EARLY, backend, on_event=events.append)
    assert {(event.node, event.name) for event in events} == {("g0", "related")}


def test_tokens_of_dead_calls_are_no_longer_expected() -> None:
    """What a backend is told of the calls to come."""
    graph = main_program(
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


PENDING = main_program(
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
    assert call_order(backend) == ["f0[0]/g0"]


def test_rows_of_one_program_run_side_by_side() -> None:
    backend = ScriptedBackend(
        lambda p, _: p[2:4], select=lambda p, _: [0.0, 1.0], delay=lambda p: (len(p) % 3) * 0.005
    )
    graph = main_program(
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
