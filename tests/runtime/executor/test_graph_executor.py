"""Hand-built graphs on the scripted backend: data flow, streams, widths that the run decides."""

from __future__ import annotations

import pytest
from support.executor import GraphBuilder, echo, program_of, prompts, run_graph

from sgc_ir.errors import GenerationError, InputError, ToolError
from sgc_ir.graph import MISSING, Param
from sgc_ir.ops import Op
from sgc_runtime.backends.scripted import ScriptedBackend


def test_texts_arguments_and_gens_follow_each_other() -> None:
    g = GraphBuilder(topic=MISSING)
    topic = g.arg("topic", append=True)
    g.text(": ")
    a = g.gen("a", max_tokens=2)
    g.text("; again ")
    g.var("a", a, append=True)
    b = g.gen("_1")
    graph = g.done((topic, a), a=a, _1=b)
    backend = ScriptedBackend(lambda p, _: f" one{len(p)} two three")
    state = run_graph(graph, backend, {"topic": "cats"})
    assert state.error() is None
    assert [c["prompt"] for c in backend.calls] == [
        "cats: ",
        "cats:  one6 two; again  one6 two",
    ]
    assert [c["node"] for c in backend.calls] == ["g0", "g1"]
    assert state.value == ("cats", " one6 two")
    assert state.vars == {"a": " one6 two"}
    assert state["_1"] == " one32 two three"
    assert state.text() == "cats:  one6 two; again  one6 two one32 two three"
    assert state.mode == "compiled"
    assert state.usage.completion_tokens == 2 + 3


def test_parameters_are_operands_and_defaults_fill_the_rest() -> None:
    g = GraphBuilder(limit=MISSING, stops=MISSING)
    limit, stops = g.arg("limit"), g.arg("stops")
    g.text("Q")
    a = g.gen("a", max_tokens=g.expr("+", limit, 1), stop=stops, temperature=0.5)
    graph = g.done(a)
    backend = ScriptedBackend(lambda *_: "one two three; four")
    state = run_graph(graph, backend, {"limit": 2, "stops": [";", "four"]})
    assert state.value == "one two three"
    params = backend.calls[0]["params"]
    assert params["max_tokens"] == 3
    assert params["stop"] == [";", "four"]
    assert params["temperature"] == 0.5
    assert params["top_p"] == 1.0


def test_static_branches_share_the_prefix_and_join_once() -> None:
    g = GraphBuilder()
    g.text("P:")
    fork, (left, right) = g.static_fork(2)
    g.text("left", left)
    g.text("right", right)
    a, b = g.gen("v", left), g.gen("v", right)
    join = g.add(Op.JOIN, fork=fork, mode="gather", vars={"v": (a, b)})
    both = g.var("v", join)
    g.text("|")
    g.put(g.expr(".join", ",", both))
    last = g.gen("w")
    graph = g.done(both, v=both, w=last)
    backend = ScriptedBackend(echo)
    state = run_graph(graph, backend)
    assert state.value == ["<6:eft>", "<7:ght>"]
    assert prompts(backend) == {
        "f0[0]/g0": "P:left",
        "f0[1]/g0": "P:right",
        "g0": "P:|<6:eft>,<7:ght>",
    }
    assert state.meta("v") == [state.meta("v")[0]] * 2


@pytest.mark.parametrize("width", [1, 3])
def test_a_fork_of_run_time_width_is_walked_by_loops(width: int) -> None:
    g = GraphBuilder(n=MISSING)
    g.text("P")
    fork = g.fork(width=g.arg("n"))

    def first(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.put(index, branch)
        body.gen("v", branch)

    def second(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.text("+", branch)
        return body.gen("w", branch, ordinal=1)

    one = g.loop([fork], first, captures={"fork": fork})
    two = g.loop([fork], second, captures={"fork": fork}, after=one)
    join = g.add(Op.JOIN, fork=fork, mode="gather")
    v = g.var("v", join)
    graph = g.done((v, two))
    backend = ScriptedBackend(lambda p, _: f"[{p}]")
    state = run_graph(graph, backend, {"n": width})
    assert state.error() is None
    assert state.value == (
        [f"[P{i}]" for i in range(width)],
        [f"[P{i}[P{i}]+]" for i in range(width)],
    )
    assert {c["node"] for c in backend.calls} == {
        f"f0[{i}]/g{j}" for i in range(width) for j in (0, 1)
    }


@pytest.mark.parametrize("width", [0, -1, "2", True])
def test_a_bad_width_fails_the_row_and_names_the_fork(width: object) -> None:
    g = GraphBuilder(n=MISSING)
    fork = g.fork(width=g.arg("n"))
    g.loop(
        [fork],
        lambda body, index, fork: body.gen("v", body.item(fork, index)),
        captures={"fork": fork},
    )
    state = run_graph(g.done(), ScriptedBackend(echo), {"n": width})
    error = state.error()
    assert isinstance(error, GenerationError)
    assert error.node == "f0"
    assert error.source == "p.py:2"
    assert "width" in str(error)


@pytest.mark.parametrize("items", [[], ["x"], ["x", "y", "z"]])
def test_fork_each_gives_items_and_joins_nothing_when_empty(items: list[str]) -> None:
    g = GraphBuilder(items=MISSING)
    g.text("P")
    fork = g.fork(items=g.arg("items"))

    def body(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.put(body.var("item", branch, field="item"), branch)
        return body.gen("v", branch)

    values = g.loop([fork], body, captures={"fork": fork})
    g.add(Op.JOIN, fork=fork, mode="append")
    end = g.gen("end")
    backend = ScriptedBackend(lambda p, _: "!" if p.count("P") else "?")
    state = run_graph(g.done((values, end)), backend, {"items": items})
    assert state.value == (["!"] * len(items), "!")
    assert prompts(backend)["g0"] == "P" + "".join(f"{x}!" for x in items)


def test_direct_branches_keep_program_order_with_loops_that_wait() -> None:
    """forks[0] gets: text of loop 1 (which waits for a slow list), a direct text, loop 2."""
    g = GraphBuilder(n=MISSING)
    words = g.expr(".split", g.gen("words"), " ")
    fork = g.fork(width=g.arg("n"))

    def pair(body: GraphBuilder, index, word, fork):
        branch = body.item(fork, index)
        body.put(word, branch)

    one = g.loop([fork, words], pair, captures={"fork": fork})
    zero = g.item(fork, 0)
    g.text("-direct-", zero)
    g.loop(
        [fork],
        lambda body, index, fork: body.gen("v", body.item(fork, index)),
        captures={"fork": fork},
        after=one,
    )
    v = g.var("v", zero)
    backend = ScriptedBackend(
        lambda p, _: "red blue" if p == "" else f"[{p}]", delay=lambda p: 0.05 if p == "" else 0.0
    )
    state = run_graph(g.done(v), backend, {"n": 2})
    assert state.error() is None
    assert state.value == "[red bluered-direct-]"
    assert prompts(backend)["f0[1]/g0"] == "red blueblue"


def test_nested_forks_and_loops_inside_a_branch() -> None:
    g = GraphBuilder(rows=MISSING)
    rows = g.arg("rows")
    fork = g.fork(items=rows)

    def outer(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        row = body.var("item", branch, field="item")
        body.text("<", branch)
        inner = body.fork(branch, items=row)

        def leaf(leaf_body: GraphBuilder, i, inner):
            twig = leaf_body.item(inner, i)
            leaf_body.put(leaf_body.var("item", twig, field="item"), twig)
            return leaf_body.gen("v", twig)

        values = body.loop([inner], leaf, stream=branch, captures={"inner": inner})
        body.add(Op.JOIN, branch, fork=inner, mode="gather")
        body.put(body.expr("len", values), branch)
        body.gen("w", branch)
        return values

    values = g.loop([fork], outer, captures={"fork": fork})
    join = g.add(Op.JOIN, fork=fork, mode="gather")
    w = g.var("w", join)
    backend = ScriptedBackend(lambda p, _: f"[{p}]")
    state = run_graph(g.done((values, w)), backend, {"rows": [["a"], ["b", "c"]]})
    assert state.error() is None
    assert state.value == ([["[<a]"], ["[<b]", "[<c]"]], ["[<1]", "[<2]"])
    assert {c["node"] for c in backend.calls} == {
        "f0[0]/f0[0]/g0",
        "f0[1]/f0[0]/g0",
        "f0[1]/f0[1]/g0",
        "f0[0]/g0",
        "f0[1]/g0",
    }


def test_passes_that_copy_the_outer_stream_see_it_as_it_was_before_the_loop() -> None:
    g = GraphBuilder(items=MISSING)
    items = g.arg("items")
    g.text("P")
    slow = g.expr("+", items, g.expr(".split", g.gen("more"), " "))

    def body(body: GraphBuilder, word, i):
        copy = body.fork(width=1, copy=True, ordinal=i)
        branch = body.item(copy, 0)
        body.put(word, branch)
        return body.gen("v", branch)

    values = g.loop([slow], body, index="i")
    g.text("after")
    end = g.gen("end")
    backend = ScriptedBackend(lambda p, _: "x y" if p == "P" else f"[{p}]")
    state = run_graph(g.done((values, end)), backend, {"items": ["w"]})
    assert state.error() is None
    assert state.value == (["[Px yw]", "[Px yx]", "[Px yy]"], "[Px yafter]")
    assert [n for n in prompts(backend) if n.startswith("f")] == [
        "f0[0]/g0",
        "f1[0]/g0",
        "f2[0]/g0",
    ]


def test_sub_programs_run_in_streams_of_their_own() -> None:
    sub = GraphBuilder("sub", x=MISSING, y="d")
    sub.text("sub ")
    sub.arg("x", append=True)
    sub.arg("y", append=True)
    v = sub.gen("v")
    sub_graph = sub.done(sub.expr("concat", "<", v, ">"), v=v)

    g = GraphBuilder()
    g.text("main ")
    one = g.add(Op.SUB_PROGRAM, callee="sub", args={"x": "1"})
    two = g.add(Op.SUB_PROGRAM, callee="sub", args={"x": g.var("v", one), "y": ""})
    text = g.var("text", two, field="text")
    result = g.var("result", one, field="result")
    unread = g.add(Op.SUB_PROGRAM, callee="sub", args={"x": "unread"})
    own = g.gen("v")
    graph = g.done({"text": text, "result": result, "own": own, "handle": unread}, v=own)
    backend = ScriptedBackend(lambda p, _: f"[{p}]")
    state = run_graph(program_of(graph, sub_graph), backend)
    assert state.error() is None
    assert state.value["text"] == "sub [sub 1d][sub [sub 1d]]"
    assert state.value["result"] == "<[sub 1d]>"
    assert state["v"] == "[main ]"
    handle = state.value["handle"]
    assert handle["v"] == "[sub unreadd]"
    assert handle.value == "<[sub unreadd]>"
    assert handle.text() == "sub unreadd[sub unreadd]"
    assert handle.usage.prompt_tokens == 2
    assert set(prompts(backend)) == {"c0/g0", "c1/g0", "c2/g0", "g0"}


def test_roles_media_and_readings_of_a_stream() -> None:
    g = GraphBuilder()
    g.add(Op.ROLE_BEGIN, role="user")
    g.text("Look: ")
    g.add(Op.IMAGE, data="a.png")
    before = g.var("t", g.text("."), field="stream_text")
    g.add(Op.ROLE_END, role="user")
    g.add(Op.ROLE_BEGIN, role="assistant")
    a = g.gen("a")
    g.add(Op.ROLE_END, role="assistant")
    after = g.var("m", a, field="stream_messages")
    backend = ScriptedBackend(lambda *_: "fine")
    state = run_graph(g.done((before, after)), backend)
    assert state.error() is None
    text, messages = state.value
    assert text == "<|im_start|>user\nLook: <image>."
    assert messages[1] == {"role": "assistant", "content": "fine"}
    assert messages[0]["content"][1] == {"type": "image", "data": "a.png"}
    assert backend.calls[0]["prompt"] == text + "<|im_end|>\n<|im_start|>assistant\n"
    assert backend.calls[0]["media"][0].data == "a.png"


def test_a_select_and_samples() -> None:
    g = GraphBuilder(options=MISSING)
    g.text("Pick ")
    pick = g.select("pick", choices=g.arg("options"))
    three = g.gen("three", n=3)
    scores = g.var("pick", pick, field="meta")
    backend = ScriptedBackend(
        lambda p, _: p[-1] + str(len(backend.calls)), select=lambda p, c: [len(x) for x in c]
    )
    graph = g.done((pick, three, scores), three=three)
    state = run_graph(graph, backend, {"options": ["a", "bbb", "cc"]})
    assert state.value[0] == "bbb"
    assert state.value[1] == ["b2"] * 3
    assert state.value[2]["scores"] == [1.0, 3.0, 2.0]
    assert state.text() == "Pick bbbb2"
    assert state.meta("three")["finish_reason"] == ["eos"] * 3


def test_arguments_are_checked() -> None:
    g = GraphBuilder()
    g.params = (Param("n", "int"), Param("s", "str", "d"))
    graph = g.done(g.arg("n"))
    assert run_graph(graph, args={"n": 3}).value == 3
    for args, word in [({}, "missing"), ({"n": 1, "x": 2}, "unknown"), ({"n": True}, "n")]:
        with pytest.raises(InputError, match=word):
            run_graph(graph, args=args)


def test_missing_and_changed_tools_are_refused_before_the_run() -> None:
    g = GraphBuilder()
    g.text("x")
    g.gen("a")
    g.add(Op.CALL, tool="t", effect="pure", args=(1,))
    backend = ScriptedBackend(echo)
    with pytest.raises(ToolError, match="t is not registered"):
        run_graph(program_of(g.done(), tools={"t": "pure"}), backend)
    assert backend.calls == []


def test_arguments_of_sub_programs_are_checked_when_they_are_there() -> None:
    sub = GraphBuilder("sub")
    sub.params = (Param("n", "int"), Param("s", "str", "d"))
    sub.arg("n", append=True)
    v = sub.gen("v")
    sub_graph = sub.done(v, v=v)
    g = GraphBuilder()
    a = g.gen("a")
    g.add(Op.SUB_PROGRAM, callee="sub", args={"n": g.expr("int", a)})
    g.add(Op.SUB_PROGRAM, callee="sub", args={"n": a})
    backend = ScriptedBackend(lambda *_: "7")
    state = run_graph(program_of(g.done(a, a=a), sub_graph), backend)
    assert isinstance(state.error(), InputError)
    assert "sub: argument n" in str(state.error())
    assert set(prompts(backend)) == {"g0", "c0/g0"}
