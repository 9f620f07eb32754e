"""The graphs that programs become: ops, operands, streams, ordinals."""

from __future__ import annotations

from typing import Any

import sgc
from sgc.trace.tracer import trace_program
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.verify import verify


def traced(program: sgc.Program) -> Program:
    graph = trace_program(program.spec, {})
    verify(graph)
    return graph


def shown(graph: Graph) -> list[tuple[Any, ...]]:
    """(op, stream, attributes) of each node."""
    return [(n.op, n.stream, dict(n.attrs)) for n in graph.nodes]


def only(graph: Graph, op: Op) -> Node:
    (node,) = [n for n in graph.nodes if n.op is op]
    return node


def test_text_argument_gen_and_variable() -> None:
    @sgc.function
    def program(s, q):
        s += "Q: "
        s += q
        s += sgc.gen("a", max_tokens=5)
        s += s["a"]
        return s["a"]

    assert shown(traced(program).graph) == [
        (Op.ARGUMENT, ROOT_STREAM, {"name": "q"}),
        (Op.CONSTANT_TEXT, ROOT_STREAM, {"text": "Q: "}),
        (Op.ARGUMENT, ROOT_STREAM, {"name": "q", "append": True}),
        (Op.GEN, ROOT_STREAM, {"name": "a", "ordinal": 0, "max_tokens": 5}),
        (Op.VARIABLE, ROOT_STREAM, {"name": "a", "of": Ref(3)}),
        (Op.VARIABLE, ROOT_STREAM, {"name": "a", "of": Ref(3), "append": True}),
        (Op.RETURN, ROOT_STREAM, {"value": Ref(4), "vars": {"a": Ref(4)}}),
    ]


def test_nodes_name_file_and_line_of_their_statement() -> None:
    @sgc.function
    def program(s, q):
        s += "a"

        s += (
            "b"
            + q.upper()
        )  # fmt: skip

    first = program.spec.fn.__code__.co_firstlineno
    nodes = traced(program).graph.nodes
    lines = [n.source.line - first for n in nodes if n.op in (Op.CONSTANT_TEXT, Op.EXPR)]
    assert lines == [2, 6, 5, 4]  # one-based from the decorator
    assert {n.source.file for n in nodes[1:-1]} == {program.spec.file}


def test_choices_are_a_select_and_parameters_are_normalised() -> None:
    @sgc.function
    def program(s, st):
        s += sgc.gen("a", choices=["x", "y"])
        s += sgc.gen("b", stop="END", dtype=int, stop_token_ids=[3])
        s += sgc.gen("c", stop=[st, "\n"])

    nodes = [n for n in traced(program).graph.nodes if n.op in (Op.GEN, Op.SELECT)]
    assert nodes[0].op is Op.SELECT
    assert nodes[0].attrs["choices"] == ("x", "y")
    assert nodes[1].attrs["stop"] == ("END",)
    assert nodes[1].attrs["dtype"] == "int"
    assert nodes[1].attrs["stop_token_ids"] == (3,)
    assert nodes[2].attrs["stop"] == (Ref(0), "\n")


def test_static_fork_opens_one_stream_a_branch_and_join_names_the_writers() -> None:
    @sgc.function
    def program(s):
        forks = s.fork(2)
        for f in forks:
            f += sgc.gen("v")
        forks.join()
        return s["v"]

    nodes = traced(program).graph.nodes
    assert [n.op for n in nodes[:5]] == [
        Op.FORK,
        Op.GET_FORK_ITEM,
        Op.GET_FORK_ITEM,
        Op.GEN,
        Op.GEN,
    ]
    assert [n.stream for n in nodes[3:5]] == [1, 2]
    assert nodes[5].attrs == {"fork": Ref(0), "mode": "gather", "vars": {"v": [Ref(3), Ref(4)]}}
    assert nodes[-1].attrs["value"] == [Ref(6), Ref(7)]


def test_run_time_fork_is_one_loop_with_the_branch_as_its_item() -> None:
    @sgc.function
    def program(s, n: int, xs: list[str]):
        forks = s.fork(n)
        for f, x in zip(forks, xs, strict=False):
            f += x + sgc.gen("v")
        return [f["v"] for f in forks]

    graph = traced(program).graph
    fork, (walk, read) = only(graph, Op.FORK), [n for n in graph.nodes if n.op is Op.LOOP]
    assert fork.attrs == {"ordinal": 0, "width": Ref(0)}
    assert walk.attrs["over"] == (Ref(fork.id), Ref(1))
    assert walk.attrs["captures"] == {"c0": Ref(fork.id)}
    assert read.attrs["after"] == Ref(walk.id)
    assert graph.nodes[-1].attrs["value"] == Ref(read.id)
    body = walk.body
    assert body is not None
    item = only(body, Op.GET_FORK_ITEM)
    assert only(body, Op.GEN).stream == item.id
    assert only(body, Op.RETURN).attrs == {"value": None, "vars": {}}


def test_list_comprehension_is_one_loop_whatever_the_length() -> None:
    @sgc.function
    def program(s, xs: list[str]):
        s += ", ".join(f"<{x}>" for x in xs)

    graph = traced(program).graph
    assert [n.op for n in graph.nodes].count(Op.LOOP) == 1
    assert len(graph.nodes) == 5


def test_constant_list_comprehension_unrolls() -> None:
    @sgc.function
    def program(s, q):
        s += ", ".join(q + x for x in "ab")

    assert Op.LOOP not in [n.op for n in traced(program).graph.nodes]


def test_equal_widths_give_constant_ordinals_and_others_conditions() -> None:
    @sgc.function
    def program(s, xs: list[str], ys: list[str]):
        forks = s.fork(len(xs))
        for f, x in zip(forks, xs, strict=False):
            f += x + sgc.gen("a")
        for f in forks:
            f += sgc.gen("b")
        for f, y in zip(forks, ys, strict=False):
            f += y + sgc.gen("c")
        for f in forks:
            f += sgc.gen("d")

    loops = [n.body for n in traced(program).graph.nodes if n.op is Op.LOOP]
    ordinals = [only(body, Op.GEN).attrs["ordinal"] for body in loops if body is not None]
    assert ordinals[:3] == [0, 1, 2]
    assert isinstance(ordinals[3], Ref)


def test_calls_in_a_loop_count_on_by_its_length() -> None:
    @sgc.tool(effect="pure")
    def graphs_look(x):
        return x

    @sgc.function
    def program(s, xs: list[str]):
        s += sgc.gen("a")
        found = [sgc.call(graphs_look, x) for x in xs]
        s += sgc.gen("b")
        return found

    graph = traced(program).graph
    last = [n for n in graph.nodes if n.op is Op.GEN][-1]
    total = graph.nodes[last.attrs["ordinal"].node]
    assert total.attrs["fn"] == "+"
    assert total.attrs["args"][0] == 1
    assert graph.nodes[total.attrs["args"][1].node].attrs["fn"] == "len"


def test_partial_expression_that_nobody_reads_stays() -> None:
    @sgc.function
    def program(s, x):
        int(x)

    assert only(traced(program).graph, Op.EXPR).attrs["fn"] == "int"


def test_total_condition_is_an_expression_without_a_branch() -> None:
    @sgc.function
    def program(s, x: str):
        s += "yes" if x != "a" and len(x) < 3 else "no"

    functions = [n.attrs["fn"] for n in traced(program).graph.nodes if n.op is Op.EXPR]
    assert functions == ["!=", "len", "<", "and", "if", "text"]


def test_tools_with_effects_name_the_one_before() -> None:
    @sgc.tool(effect="irreversible")
    def graphs_pay(x):
        return x

    @sgc.tool(effect="pure")
    def graphs_ask(x):
        return x

    @sgc.function
    def program(s, x):
        sgc.call(graphs_pay, x)
        sgc.call(graphs_ask, x)
        sgc.call(graphs_pay, x)

    calls = [n for n in traced(program).graph.nodes if n.op is Op.CALL]
    assert "after" not in calls[0].attrs
    assert "after" not in calls[1].attrs
    assert calls[2].attrs["after"] == Ref(calls[0].id)


def test_role_turns_media_and_state_readings() -> None:
    @sgc.function
    def program(s, path):
        with s.user():
            s += sgc.image(path) + sgc.video("clip.mp4", 4)
        return s.text(), s.messages()

    nodes = traced(program).graph.nodes
    assert [n.op for n in nodes[1:]] == [
        Op.ROLE_BEGIN,
        Op.IMAGE,
        Op.VIDEO,
        Op.ROLE_END,
        Op.VARIABLE,
        Op.VARIABLE,
        Op.RETURN,
    ]
    assert nodes[2].attrs == {"data": Ref(0)}
    assert nodes[3].attrs == {"data": "clip.mp4", "num_frames": 4}
    assert [n.attrs["field"] for n in nodes[5:7]] == ["stream_text", "stream_messages"]
