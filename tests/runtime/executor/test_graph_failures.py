"""What fails, what is cancelled with it, and what goes on; tools and their order; timing."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest
from support.executor import GraphBuilder, echo, program_of, run_graph

from sgc_ir.errors import GenerationError, ToolError
from sgc_ir.graph import MISSING
from sgc_ir.ops import Op
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync


@dataclass
class PlainTool:
    fn: Any
    name: str
    effect: str
    deadline: float | None = None
    retries: int | None = None


def test_a_failing_branch_is_named_and_its_sibling_finishes() -> None:
    g = GraphBuilder()
    fork, (left, right) = g.static_fork(2)
    g.text("L", left)
    g.text("R", right)
    a = g.gen("v", left)
    b = g.gen("v", right)
    join = g.add(Op.JOIN, fork=fork, mode="gather", vars={"v": (a, b)})
    g.put(g.expr(".join", "", g.var("v", join)))
    late = g.gen("late")
    own = g.var("v", b)
    graph = g.done(late, good=own, bad=a, late=late)
    cause = RuntimeError("no luck")
    backend = ScriptedBackend(
        echo,
        fail=lambda p: cause if p == "L" else None,
        delay=lambda p: 0.03 if p == "R" else 0.0,
    )
    state = run_graph(graph, backend, row=7)
    error = state.error()
    assert isinstance(error, GenerationError)
    assert (error.program, error.instance, error.node) == ("main", 7, "f0[0]/g0")
    assert error.source == f"p.py:{a.node + 1}"
    assert error.__cause__ is cause
    assert state.vars == {"good": "<1:R>"}
    assert state.value is None
    assert [c["prompt"] for c in backend.calls] == ["L", "R"]
    with pytest.raises(GenerationError) as raised:
        state["late"]
    assert raised.value is error


def test_an_error_in_a_branch_that_nobody_reads_fails_the_row() -> None:
    g = GraphBuilder()
    _, (branch,) = g.static_fork(1)
    g.text("x", branch)
    g.gen("v", branch)
    g.text("main")
    own = g.gen("w")
    backend = ScriptedBackend(echo, fail=lambda p: OSError("gone") if p == "x" else None)
    state = run_graph(g.done(own, w=own), backend)
    assert isinstance(state.error(), GenerationError)
    assert state.vars == {"w": "<4:ain>"}


def test_the_first_error_in_program_order_decides() -> None:
    g = GraphBuilder(items=MISSING)
    _, (slow, fast) = g.static_fork(2)
    g.text("slow", slow)
    g.text("fast", fast)
    first = g.gen("a", slow)
    g.gen("b", fast)
    backend = ScriptedBackend(
        echo, fail=lambda p: ValueError(p), delay=lambda p: 0.05 if p == "slow" else 0.0
    )
    error = run_graph(g.done(), backend, {"items": []}).error()
    assert isinstance(error, GenerationError)
    assert error.source == f"p.py:{first.node + 1}"
    assert "slow" in str(error)


def test_an_expression_raises_what_python_raises() -> None:
    g = GraphBuilder()
    a = g.gen("a")
    number = g.expr("int", a)
    g.put(number)
    g.gen("b")
    state = run_graph(g.done(number, a=a), ScriptedBackend(lambda *_: "x"), row=3)
    error = state.error()
    assert type(error) is ValueError
    assert "invalid literal" in str(error)
    assert error.node == ""  # type: ignore[attr-defined]  # the program, as when interpreted
    assert error.source == f"p.py:{number.node + 1}"  # type: ignore[attr-defined]
    assert error.instance == 3  # type: ignore[attr-defined]
    assert state.vars == {"a": "x"}


def test_a_bad_run_time_parameter_fails_its_gen() -> None:
    g = GraphBuilder(n=MISSING)
    a = g.gen("a", max_tokens=g.arg("n"))
    state = run_graph(g.done(), ScriptedBackend(echo), {"n": "many"})
    error = state.error()
    assert isinstance(error, GenerationError)
    assert error.node == "g0"
    assert error.source == f"p.py:{a.node + 1}"
    assert "max_tokens" in str(error)


def test_an_unset_variable_of_a_run_time_branch_names_variable_and_branch() -> None:
    g = GraphBuilder(n=MISSING)
    fork = g.fork(width=g.arg("n"))

    def body(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.gen("w", branch)
        return body.var("v", branch)

    g.loop([fork], body, captures={"fork": fork})
    zero = g.item(fork, 0)
    g.expr("set", "v", "x", stream=zero)
    state = run_graph(g.done(), ScriptedBackend(echo), {"n": 2})
    error = state.error()
    assert isinstance(error, GenerationError)
    assert "'v'" in str(error)
    assert "f0[0]" in str(error)


def test_a_branch_that_lacks_a_gathered_variable_is_named() -> None:
    g = GraphBuilder(n=MISSING)
    fork = g.fork(width=g.arg("n"))
    zero = g.item(fork, 0)
    g.gen("v", zero)
    join = g.add(Op.JOIN, fork=fork, mode="gather")
    v = g.var("v", join)
    state = run_graph(g.done(v), ScriptedBackend(echo), {"n": 2})
    assert isinstance(state.error(), GenerationError)
    assert "f0[1]" in str(state.error())


def test_errors_of_sub_programs_name_the_sub_program() -> None:
    sub = GraphBuilder("sub")
    sub.text("s")
    bad = sub.gen("v")
    sub_graph = sub.done(bad, v=bad)
    g = GraphBuilder()
    handle = g.add(Op.SUB_PROGRAM, callee="sub", args={})
    g.text("m")
    own = g.gen("own")
    backend = ScriptedBackend(echo, fail=lambda p: KeyError("k") if p == "s" else None)
    state = run_graph(program_of(g.done(own, own=own), sub_graph), backend)
    error = state.error()
    assert isinstance(error, GenerationError)
    assert (error.program, error.node) == ("sub", "c0/g0")
    assert state.vars == {"own": "<1:m>"}
    assert handle.node == 0


# -- tools


def _tool_graph(effects: list[str]) -> tuple[GraphBuilder, list[Any]]:
    g = GraphBuilder(xs=MISSING)
    xs = g.arg("xs")
    calls = []
    for i, effect in enumerate(effects):
        x = g.expr("getitem", xs, i)
        calls.append(g.add(Op.CALL, tool=effect, effect=effect, args=(x,), kwargs={"k": i}))
    return g, calls


def test_tools_with_effects_keep_program_order_and_pure_ones_do_not_wait() -> None:
    log: list[Any] = []

    def work(x: str, k: int) -> list[Any]:
        log.append(k)
        return [x, k]

    async def async_work(x: str, k: int) -> list[Any]:
        while 2 not in log:  # the pure one
            await asyncio.sleep(0.005)
        log.append(k)
        return [x, k]

    tools = {
        "pure": PlainTool(work, "pure", "pure"),
        "repeatable": PlainTool(async_work, "repeatable", "repeatable"),
        "irreversible": PlainTool(work, "irreversible", "irreversible"),
    }
    g, calls = _tool_graph(["repeatable", "irreversible", "pure", "irreversible"])
    graph = program_of(g.done(calls), tools={name: name for name in tools})
    state = run_graph(graph, args={"xs": [*"abcd"]}, tools=tools)
    assert state.error() is None
    assert state.value == [["a", 0], ["b", 1], ["c", 2], ["d", 3]]
    assert log == [2, 0, 1, 3]


@pytest.mark.parametrize(
    ("result", "words"),
    [({1: 2}, "key"), ((1,), "tuple"), (float("nan"), "nan"), ([object()], "object")],
)
def test_tools_give_plain_json(result: object, words: str) -> None:
    g = GraphBuilder()
    g.add(Op.CALL, tool="t", effect="pure", args=())
    tools = {"t": PlainTool(lambda: result, "t", "pure")}
    error = run_graph(program_of(g.done(), tools={"t": "pure"}), tools=tools).error()
    assert isinstance(error, GenerationError)
    assert isinstance(error.__cause__, ToolError)
    assert words in str(error)


def test_a_tool_that_raises_stops_later_effects_only() -> None:
    log = []

    def bad() -> None:
        raise LookupError("nothing there")

    tools = {
        "bad": PlainTool(bad, "bad", "irreversible"),
        "log": PlainTool(lambda: log.append("log"), "log", "irreversible"),
        "free": PlainTool(lambda: log.append("free"), "free", "pure"),
    }
    g = GraphBuilder()
    for name, tool in tools.items():
        g.add(Op.CALL, tool=name, effect=tool.effect, args=())
    program = program_of(g.done(), tools={n: t.effect for n, t in tools.items()})
    error = run_graph(program, tools=tools).error()
    assert isinstance(error, GenerationError)
    assert error.node == "g0"
    assert isinstance(error.__cause__, ToolError)
    assert isinstance(error.__cause__.__cause__, LookupError)
    assert log == ["free"]


def test_a_tool_gets_copies_and_gives_a_copy() -> None:
    kept: list[Any] = []

    def work(data: dict[str, Any]) -> dict[str, Any]:
        data["items"].append("changed")
        kept.append(data)
        return data

    tools = {"t": PlainTool(work, "t", "pure")}
    g = GraphBuilder(data=MISSING)
    data = g.arg("data")
    result = g.add(Op.CALL, tool="t", effect="pure", args=(data,))
    program = program_of(g.done((data, result)), tools={"t": "pure"})
    given = {"items": ["a"]}
    state = run_graph(program, args={"data": given}, tools=tools)
    assert state.value == ({"items": ["a"]}, {"items": ["a", "changed"]})
    assert state.value[1] is not kept[0]


def test_an_irreversible_tool_does_not_run_where_python_would_have_stopped() -> None:
    ran = []
    tools = {"t": PlainTool(lambda: ran.append(1), "t", "irreversible")}
    g = GraphBuilder()
    a = g.gen("a")
    g.expr("int", a)
    g.add(Op.CALL, tool="t", effect="irreversible", args=(), ordinal=1)
    program = program_of(g.done(), tools={"t": "irreversible"})
    backend = ScriptedBackend(lambda *_: "x", delay=lambda _: 0.03)
    assert type(run_graph(program, backend, tools=tools).error()) is ValueError
    assert ran == []
    good = ScriptedBackend(lambda *_: "1", delay=lambda _: 0.03)
    assert run_graph(program, good, tools=tools).error() is None
    assert ran == [1]


def test_effects_inside_a_waiting_loop_come_before_those_behind_it() -> None:
    log: list[Any] = []

    def note(x: str) -> None:
        time.sleep(0.02 if x == "a" else 0.0)
        log.append(x)

    tools = {"t": PlainTool(note, "t", "repeatable")}
    g = GraphBuilder()
    words = g.expr(".split", g.gen("w"), " ")

    def body(body: GraphBuilder, word, i):
        body.add(Op.CALL, tool="t", effect="repeatable", args=(word,), ordinal=i)

    g.loop([words], body, index="i")
    g.add(Op.CALL, tool="t", effect="repeatable", args=("end",), ordinal=99)
    program = program_of(g.done(), tools={"t": "repeatable"})
    backend = ScriptedBackend(lambda *_: "a b c", delay=lambda _: 0.03)
    assert run_graph(program, backend, tools=tools).error() is None
    assert log == ["a", "b", "c", "end"]


# -- time


def test_a_node_starts_when_its_inputs_are_there_not_when_siblings_are() -> None:
    """A chain of five quick calls beside one slow sibling."""
    g = GraphBuilder()
    fork, (slow, quick) = g.static_fork(2)
    g.text("slow", slow)
    s = g.gen("v", slow)
    for i in range(5):
        g.text(f"q{i}", quick)
        last = g.gen(f"v{i}", quick)
    g.add(Op.JOIN, fork=fork, mode="gather", vars={"v": (s, last)})
    answered: list[str] = []

    def reply(prompt: str, _: Any) -> str:
        answered.append(prompt)
        return "."

    # The slow one is answered after a second, or later; the others wait for nothing.
    run_graph(g.done(), ScriptedBackend(reply, delay=lambda p: 1.0 if p == "slow" else 0.0))
    assert len(answered) == 6
    assert answered[-1] == "slow"


def test_cancelling_stops_calls_in_flight_and_issues_no_more() -> None:
    g = GraphBuilder()
    g.text("x")
    g.gen("a")
    g.text("y")
    g.gen("b")
    program = program_of(g.done())
    cancelled = []

    async def main() -> RunContext:
        backend = ScriptedBackend(echo, delay=lambda _: 600.0)
        backend_begin = backend.begin

        async def begin(*args: Any) -> Any:
            try:
                return await backend_begin(*args)
            except asyncio.CancelledError:
                cancelled.append(args[1])
                raise

        backend.begin = begin  # type: ignore[method-assign]
        ctx = RunContext(backend)
        task = asyncio.ensure_future(execute(program, {}, ctx))
        while not backend.calls:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not cancelled:
            await asyncio.sleep(0.005)
        assert len(backend.calls) == 1
        return ctx

    ctx = run_sync(main())
    assert cancelled == ["x"]
    assert isinstance(ctx.first_error(), asyncio.CancelledError)


def test_a_thousand_expressions_in_a_chain_need_no_stack() -> None:
    g = GraphBuilder()
    value = g.expr("len", g.gen("a"))
    for _ in range(3000):
        value = g.expr("+", value, 1)
    state = run_graph(g.done(value), ScriptedBackend(lambda *_: "12", delay=lambda _: 0.01))
    assert state.value == 3002
