"""One seeded defect a rule: the verifier names graph, node and source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ir.defects import DEFECTS
from ir.edited import (
    GEN,
    IF,
    LOOPING,
    TRYING,
    UNSETTING,
    J,
    S,
    body_node,
    build,
    find,
    with_attrs,
)
from ir.samples import Builder, essay_judge, static_judge

from sgc_ir.errors import CompileError
from sgc_ir.graph import Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op
from sgc_ir.verify import RULES, verify


def refusal(bad: Program) -> CompileError:
    with pytest.raises(CompileError) as caught:
        verify(bad)
    return caught.value


def in_stream(program: Program, stream: int) -> Program:
    """The last node but one is in another stream."""
    graph = program.graph
    nodes = [*graph.nodes[:-2], replace(graph.nodes[-2], stream=stream), graph.nodes[-1]]
    return replace(program, graphs={**program.graphs, graph.name: replace(graph, nodes=nodes)})


def test_samples_are_valid() -> None:
    verify(essay_judge())
    verify(static_judge())
    for program in (IF, LOOPING, UNSETTING, TRYING):
        verify(program)


def test_errors_name_graph_node_and_source() -> None:
    error = refusal(with_attrs(static_judge(), 0, role="nobody"))
    assert (error.file, error.line) == ("static.py", 4)
    assert str(error).startswith("static.py:4: graph judge: node %0 RoleBegin: attribute role")


def test_a_body_is_walked_before_its_own_attributes_are_checked() -> None:
    for attrs in ({"fn": "set", "args": 1.5}, {"fn": "set", "args": "ab"}):
        assert "args" in str(refusal(body_node(J, 0, op=Op.EXPR, attrs=attrs)))
    for attrs in ({"name": ["n"]}, {}):
        assert "name" in str(refusal(body_node(LOOPING, 0, op=Op.ARGUMENT, attrs=attrs)))
    assert "stream %254" in str(refusal(in_stream(IF, 254)))
    slots = with_attrs(LOOPING, 0, carried={1: 2, None: 3, "n": 0})
    assert refusal(slots).reason
    join = body_node(J, 0, op=Op.JOIN, attrs={"vars": 7})
    assert "node %0 Join" in str(refusal(join))


def test_every_rule_has_its_defects() -> None:
    assert set(DEFECTS) == {law for law, _rule in RULES}


@pytest.mark.parametrize("law", DEFECTS)
def test_rule_catches_its_defects(law: str) -> None:
    for bad, words in DEFECTS[law]:
        message = str(refusal(bad))
        assert words in message
        assert "graph " in message
        assert "\n" not in message


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(S, main="other"), "main graph 'other'"),
        (replace(S, graphs={**S.graphs, "x": S.graphs["summary"]}), "is listed as 'x'"),
        (replace(S, outputs=("",)), "output ''"),
        (replace(S, tools={"search": "odd"}), "effect 'odd'"),
        (replace(S, notes={"a": object()}), "notes"),
        (replace(S, notes={"a": Ref(0)}), "notes hold a reference"),
    ],
)
def test_faults_of_the_whole_program(bad: Program, words: str) -> None:
    assert words in str(refusal(bad))


def test_graphs_that_call_each_other_are_refused() -> None:
    def caller(name: str, callee: str) -> Graph:
        b = Builder()
        b.add(Op.SUB_PROGRAM, callee=callee, args={}, ordinal=0)
        return b.graph(name)

    graphs = {n: caller(n, c) for n, c in [("main", "a"), ("a", "b"), ("b", "a")]}
    assert "circle: a -> b -> a" in str(refusal(Program("main", graphs)))
    chain = {f"n{i}": caller(f"n{i}", f"n{i + 1}") for i in range(300)}
    verify(Program("n0", {**chain, "n300": Builder().graph("n300")}))


def test_a_path_repeated_in_every_pass_is_refused() -> None:
    inner = Builder()
    inner.add(Op.CALL, tool="t", effect="pure", args=(), ordinal=0)
    body = inner.graph("body", Param("x"))

    def fill(b: Builder, stream: Ref | None = None) -> Ref:
        attrs = {"over": ([1],), "item_params": ("x",), "index_param": None, "captures": {}}
        return b.add(Op.LOOP, stream, body=body, **attrs)

    bad = replace(build(fill), tools={"t": "pure"})
    assert "'g0' in every pass of its loop" in str(refusal(bad))


def test_a_branch_may_end_inside_an_inherited_role() -> None:
    def fill(b: Builder) -> None:
        b.add(Op.ROLE_BEGIN, role="user")
        fork = b.add(Op.FORK, ordinal=0, width=1)
        branch = b.add(Op.GET_FORK_ITEM, fork=fork, index=0)
        b.add(Op.CONSTANT_TEXT, branch, text="more")
        b.add(Op.ROLE_END, role="user")

    verify(build(fill))

    def nested(b: Builder) -> None:
        fill(b)
        b.nodes[3] = replace(b.nodes[3], op=Op.ROLE_BEGIN, attrs={"role": "user"})

    assert "opens a role inside user" in str(refusal(build(nested)))


def test_a_body_inherits_the_roles_at_its_loop_and_its_forks() -> None:
    base = essay_judge()
    at = find(base, Op.FORK)
    nodes = list(base.graph.nodes)
    # The role that ended before the fork now ends after it: the branches are inside it.
    nodes[at - 3], nodes[at] = (
        replace(nodes[at - 3], op=Op.CONSTANT_TEXT, attrs={"text": ""}),
        nodes[at],
    )
    bad = replace(base, graphs={"judge": replace(base.graph, nodes=tuple(nodes))})
    assert "inside user" in str(refusal(bad))


def test_syntax_of_patterns_may_be_left_unchecked() -> None:
    bad = with_attrs(static_judge(), GEN, regex="(")
    verify(bad, syntax=False)
    refusal(bad)
    with pytest.raises(CompileError, match="regex=3: expected a regular expression as a string"):
        verify(with_attrs(static_judge(), GEN, regex=3), syntax=False)


def test_symbolic_values_are_not_judged() -> None:
    def fill(b: Builder) -> Ref:
        x = b.add(Op.ARGUMENT, name="x")
        b.add(Op.GEN, name="a", ordinal=0, max_tokens=x, min_tokens=5, regex=x, stop=[x, ""])
        return b.add(Op.SELECT, name="b", ordinal=1, choices=(x, "a", "a"))

    verify(build(fill, Param("x")))


def test_source_without_file_gives_no_place() -> None:
    graph = Graph("main", nodes=(Node(0, Op.CONSTANT_TEXT, attrs={}, source=Source()),))
    error = refusal(Program("main", {"main": graph}))
    assert error.file is None
    assert str(error).startswith("graph main: node %0 ConstantText")
