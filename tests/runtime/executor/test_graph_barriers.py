"""No barrier between branches: what one branch does next never waits for its siblings."""

from __future__ import annotations

from support.executor import GraphBuilder, run_graph

from sgc_ir.graph import MISSING
from sgc_ir.ops import Op
from sgc_runtime.backends.scripted import ScriptedBackend

SLOW = 0.15


def backend(order: list[str]) -> ScriptedBackend:
    """Branch "s" takes long at its first call; `order` notes when replies come."""

    def reply(prompt: str, _: object) -> str:
        order.append(prompt)
        return "x y" if len(prompt) == 1 else "."

    return ScriptedBackend(reply, delay=lambda p: SLOW if p == "s" else 0.0)


def test_the_next_loop_over_a_fork_starts_branch_by_branch() -> None:
    g = GraphBuilder(items=MISSING)
    fork = g.fork(items=g.arg("items"))

    def first(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.put(body.var("item", branch, field="item"), branch)
        value = body.gen("v", branch)
        words = body.expr(".split", value, " ", stream=branch)

        def inner(deep: GraphBuilder, word, i):
            copy = deep.item(deep.fork(width=1, copy=True, ordinal=i), 0)
            deep.put(word, copy)
            return deep.gen("w", copy)

        body.loop([words], inner, stream=branch, index="i")
        return value

    def second(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.text("!", branch)
        body.gen("w", branch, ordinal=1)

    one = g.loop([fork], first, captures={"fork": fork})
    g.loop([fork], second, captures={"fork": fork}, after=one)
    order: list[str] = []
    state = run_graph(g.done(), backend(order), {"items": ["s", "q"]})
    assert state.error() is None
    assert order.index("qx y!") < order.index("s")
    assert order.index("qx yx") < order.index("s")
    assert set(order) == {"s", "q", "sx y!", "qx y!", "sx yx", "sx yy", "qx yx", "qx yy"}


def test_values_of_branches_are_handed_on_one_by_one() -> None:
    """`for f, v in zip(forks, [f["v"] for f in forks])`, and one item of that list."""
    g = GraphBuilder(items=MISSING)
    fork = g.fork(items=g.arg("items"))

    def first(body: GraphBuilder, index, fork):
        branch = body.item(fork, index)
        body.put(body.var("item", branch, field="item"), branch)
        return body.gen("v", branch)

    def second(body: GraphBuilder, index, value, fork):
        branch = body.item(fork, index)
        body.put(value, branch)
        body.gen("w", branch, ordinal=1)

    values = g.loop([fork], first, captures={"fork": fork})
    g.loop([fork, values], second, captures={"fork": fork}, after=values)
    g.put(g.expr("len", values))
    g.put(g.expr("getitem", values, 1))
    g.gen("one")
    order: list[str] = []
    state = run_graph(g.done(values), backend(order), {"items": ["s", "q"]})
    assert state.value == ["x y", "x y"]
    assert order.index("qx yx y") < order.index("s")
    assert order.index("2x y") < order.index("s")


def test_a_gathered_list_is_walked_item_by_item() -> None:
    g = GraphBuilder()
    fork, (slow, quick) = g.static_fork(2)
    g.text("s", slow)
    g.text("q", quick)
    writers = g.gen("v", slow), g.gen("v", quick)
    join = g.add(Op.JOIN, fork=fork, mode="gather", vars={"v": writers})

    def body(body: GraphBuilder, value, i):
        copy = body.item(body.fork(width=1, copy=True, ordinal=body.expr("+", i, 1)), 0)
        body.put(i, copy)
        body.put(value, copy)
        body.gen("w", copy)

    g.loop([g.var("v", join)], body, index="i")
    order: list[str] = []
    assert run_graph(g.done(), backend(order)).error() is None
    assert order.index("1x y") < order.index("s") < order.index("0x y")


def test_joins_wait_for_nobody_but_their_readers() -> None:
    g = GraphBuilder()
    fork, (slow, quick) = g.static_fork(2)
    g.text("s", slow)
    g.text("q", quick)
    writers = g.gen("v", slow), g.gen("v", quick)
    join = g.add(Op.JOIN, fork=fork, mode="gather", vars={"v": writers})
    g.text("parent")
    g.gen("own")
    g.put(g.expr(".join", "", g.var("v", join)))
    g.gen("late")
    order: list[str] = []
    assert run_graph(g.done(), backend(order)).error() is None
    assert sorted(order[:2]) == ["parent", "q"]
    assert order[2:] == ["s", "parent.x yx y"]
