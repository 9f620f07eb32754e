"""One seeded defect a rule: the verifier names graph, node and source."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ir.edited import (
    CALL,
    EXPR,
    GEN,
    IF,
    IF_MERGE,
    IF_RETURN,
    ITEM,
    JOIN,
    LAST,
    LOOP,
    LOOPING,
    RUNTIME_FORK,
    SELECT,
    SUB,
    TEXT,
    TRYING,
    UNSETTING,
    J,
    S,
    body_node,
    build,
    chosen,
    edited,
    find,
    race,
    with_attrs,
    with_body,
    with_body_return,
    without_attr,
)
from ir.samples import Builder, essay_judge, static_judge

from sgc_ir.errors import CompileError
from sgc_ir.graph import UNSET, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op
from sgc_ir.verify import RULES, verify


def refusal(bad: Program) -> CompileError:
    with pytest.raises(CompileError) as caught:
        verify(bad)
    return caught.value


def test_samples_are_valid() -> None:
    verify(essay_judge())
    verify(static_judge())
    for program in (IF, LOOPING, UNSETTING, TRYING):
        verify(program)


def test_errors_name_graph_node_and_source() -> None:
    error = refusal(with_attrs(static_judge(), 0, role="nobody"))
    assert (error.file, error.line) == ("static.py", 4)
    assert str(error).startswith("static.py:4: graph judge: node %0 RoleBegin: attribute role")


DEFECTS: dict[str, list[tuple[Program, str]]] = {
    "ids are positions, ops are known": [
        (edited(S, 3, id=7), "position 3"),
        (edited(S, 3, op="Gem"), "no kind of node"),
    ],
    "attributes are those of the op, of the right type": [
        (without_attr(S, GEN, "name"), "lacks attribute name"),
        (with_attrs(S, GEN, colour=1), "unknown attribute colour"),
        (with_attrs(S, TEXT, text=3), "must be a string"),
        (with_attrs(S, GEN, ordinal=-1), "number >= 0"),
        (with_attrs(S, GEN, ordinal=True), "number >= 0"),
        (with_attrs(S, JOIN, mode="zip"), "gather or append"),
        (with_attrs(S, CALL, effect="quick"), "pure, repeatable"),
        (with_attrs(J, EXPR, args=Ref(0)), "list or tuple"),
        (with_attrs(J, LOOP, captures={"forks": 1}), "dict of references"),
        (with_attrs(J, EXPR, append=1), "true or false"),
        (edited(S, TEXT, body=Graph("x")), "only a Loop may"),
        (edited(J, LOOP, body=None), "lacks its body"),
        (without_attr(S, find(S, Op.VARIABLE), "of"), "lacks attribute of"),
    ],
    "values are plain data": [
        (with_attrs(S, CALL, args=(object(),)), "holds a object"),
        (with_attrs(S, CALL, args=({Ref(0): 1},)), "reference as a key"),
    ],
    "operands are earlier and have a value": [
        (with_attrs(S, CALL, args=(Ref(CALL),)), "not earlier"),
        (with_attrs(S, CALL, args=(Ref(10**6),)), "not earlier"),
        (with_attrs(S, CALL, args=(Ref(-1),)), "not earlier"),
        (with_attrs(S, CALL, args=(Ref(0),)), "a RoleBegin has no value"),
    ],
    "control comes from earlier branches": [
        (edited(S, TEXT, control=(0, True)), "no earlier Branch"),
        (edited(S, TEXT, control=(99, True)), "no earlier Branch"),
        (with_attrs(IF, IF_MERGE, tokens=()), "joins no tokens"),
        (with_attrs(IF, IF_MERGE, values=(1,)), "1 values for 2 tokens"),
        (with_attrs(IF, IF_MERGE, tokens=((Ref(0), True),) * 2), "no earlier Branch"),
        (edited(IF, IF_MERGE, control=(1, True)), "where a Merge stands"),
        (edited(IF, IF_RETURN, control=(IF_MERGE, False)), "has no other arm"),
        (edited(IF, IF_RETURN, control=(1, 1)), "neither true nor false"),
    ],
    "operands are there on every path": [
        (with_attrs(IF, IF_RETURN, value=Ref(2)), "%2, which is not there on every path"),
        (with_attrs(IF, IF_MERGE, values=(Ref(2), Ref(2))), "not there on every path"),
        (with_attrs(IF, 3, max_tokens=Ref(2)), "not there on every path"),
        (edited(IF, IF_MERGE - 1, control=None), "uses %5"),
    ],
    "loops carry what their bodies return": [
        (with_attrs(LOOPING, 0, over=(), item_params=()), "lists to walk, or a max"),
        (with_attrs(LOOPING, 0, carried={}), "'n' is returned, but not carried"),
        (body_node(LOOPING, -1, attrs={"value": 1, "vars": {}}), "carried, but not returned"),
        (with_attrs(LOOPING, 1, name="m"), "output 'm', which %0 does not carry"),
        (with_attrs(LOOPING, 2, of=Ref(1)), "reads an output of %1, a Variable"),
        (with_attrs(LOOPING, 3, kind=1), "only the Return of a body"),
        (with_body_return(LOOPING, kind=3), "must be 0, 1 or 2"),
    ],
    "failures are taken where they may happen": [
        (with_attrs(TRYING, 2, cond=Ref(0)), "no reading, call, Loop or Expr"),
        (with_attrs(TRYING, 2, cond=True), "no reading, call, Loop or Expr"),
        (with_attrs(TRYING, 2, catch=()), "takes no kind of error"),
        (edited(TRYING, 3, control=(2, False)), "where it may have taken none"),
        (with_attrs(TRYING, 3, of=Ref(1)), "what is no Branch on failures"),
    ],
    "what may be unset is not read": [
        (with_attrs(UNSETTING, 3, fn="list"), "reads %1, which may be unset"),
        (with_attrs(UNSETTING, 4, value=Ref(1)), "reads %1, which may be unset"),
        (with_attrs(UNSETTING, 4, vars={"v": UNSET}), "holds UNSET"),
    ],
    "expressions apply known functions": [
        (with_attrs(J, EXPR, fn="eval"), "'eval' is not among"),
        (with_attrs(J, EXPR, fn="len", args=(1, 2)), "1 operand"),
        (with_attrs(J, EXPR, kwargs={"key": 1}), "no keyword"),
    ],
    "forks have branches": [
        (with_attrs(J, RUNTIME_FORK, width=0), "width 0"),
        (with_attrs(J, RUNTIME_FORK, items=(1,)), "either width or items"),
        (without_attr(J, RUNTIME_FORK, "width"), "either width or items"),
        (with_attrs(J, RUNTIME_FORK, copy=True), "exactly one branch"),
        (build(lambda b: b.add(Op.VIDEO, data="a", num_frames=0) and None), "num_frames"),
    ],
    "one Return, at the end": [
        (replace(S, graphs={**S.graphs, "judge": replace(S.graph, nodes=())}), "Return"),
        (edited(S, LAST, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "does not end"),
        (edited(S, TEXT, op=Op.RETURN, attrs={"value": 1, "vars": {}}), "before the end"),
    ],
    "parameters are named and typed": [
        (with_attrs(S, find(S, Op.ARGUMENT), name="other"), "no parameter 'other'"),
        (build(lambda b: None, Param("a b")), "no name"),
        (build(lambda b: None, Param("a"), Param("a")), "stands there twice"),
        (build(lambda b: None, Param("a", keyword_only=True), Param("b")), "follows keyword"),
        (build(lambda b: None, Param("a", "list[")), "not a type"),
        (build(lambda b: None, Param("a", default=Ref(0))), "reference"),
        (build(lambda b: None, Param("a", default=set())), "holds a set"),
    ],
    "streams are open": [
        (edited(S, TEXT, stream=0), "no earlier GetForkItem opened"),
        (edited(S, TEXT, stream=ITEM), "no earlier GetForkItem opened"),
        (edited(S, TEXT, stream=-2), "no earlier GetForkItem opened"),
    ],
    "branches belong to forks": [
        (with_attrs(S, ITEM, index=3), "branch 3 of a fork of width 3"),
        (with_attrs(S, ITEM + 1, index=0), "a second time"),
        (with_attrs(S, ITEM, fork=Ref(TEXT)), "not a Fork"),
        (with_attrs(S, ITEM, fork=Ref(find(S, Op.ARGUMENT))), "no captured fork"),
    ],
    "joined branches rest": [
        (
            edited(S, find(S, Op.ROLE_END, 8), stream=ITEM),
            "appends to a branch that %29 has joined",
        ),
        (with_attrs(S, JOIN, vars={"judgment": [Ref(GEN)]}), "one writer for each of 3"),
        (with_attrs(S, JOIN, mode="append"), "has vars"),
        (edited(S, JOIN, stream=ITEM), "another stream"),
    ],
    "branches of several forks": [
        (chosen("fork=%1 index=%0 more=()"), "each of them once"),
        (chosen("fork=%1 index=%0 more=(%2, %1)"), "each of them once"),
        (chosen("fork=%1 index=%0 more=(%5,)"), "no constant width"),
        (chosen("fork=%1 index=%0 more=(%0,)"), "no constant width"),
        (chosen("fork=%1 index=0 more=(%2,)"), "name the fork"),
        (chosen("fork=%1 index=%0 more=(%4,)"), "different open roles"),
    ],
    "races have branches": [
        (race("count=1 ordinal=0"), "one of both"),
        (race("count=1 ordinal=0 among=(%1,) fork=%5"), "one of both"),
        (race("count=0 ordinal=0 among=(%1,)"), "must be 1 at least"),
        (race("count=1 ordinal=0 fork=%2"), "constant width"),
        (race("count=1 ordinal=0 fork=%5 results=()"), "has results"),
        (race("count=1 ordinal=0 among=%1 results=()"), "has results"),
        (race("count=1 ordinal=0 among=(%3,)"), "no results of branch"),
        (race('count=1 ordinal=0 among=(%3,) results=({"a": %4}, {})'), "each of 1 branches"),
        (race("count=1 ordinal=0 among=(%1,) results=({},)"), "some of a sub-program"),
    ],
    "roles do not nest and are closed": [
        (edited(S, 2, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "roles do not nest"),
        (with_attrs(S, 2, role="user"), "ends user, but system is open"),
        (edited(S, 0, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "no role is open"),
        (edited(S, LAST - 1, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "is not closed"),
        (body_node(J, 10, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "is not closed"),
    ],
    "paths are unique": [
        (with_attrs(S, SELECT, ordinal=0), "has path 'g0', which"),
        (
            with_attrs(
                build(lambda b: [b.add(Op.FORK, ordinal=i, width=1) for i in (0, 1)] and None),
                1,
                ordinal=0,
            ),
            "has path 'f0'",
        ),
        (body_node(J, 9, attrs={"name": "x", "ordinal": 0}, stream=-1), "in every pass"),
    ],
    "callees exist and get their arguments": [
        (with_attrs(S, SUB, callee="nobody"), "no graph of the program"),
        (with_attrs(S, SUB, args={}), "does not give 'text'"),
        (with_attrs(S, SUB, args={"text": 1, "more": 2}), "gives 'more'"),
    ],
    "tools are listed": [
        (replace(S, tools={}), "does not list"),
        (replace(S, tools={"search": "irreversible"}), "lists it as irreversible"),
    ],
    "loops bind their body's parameters": [
        (with_attrs(J, LOOP, item_params=("f",)), "one item parameter for each"),
        (with_attrs(J, LOOP, index_param="f"), "twice"),
        (with_attrs(J, LOOP, index_param="i"), "gives 'i'"),
        (
            with_body(J, 0, lambda g: replace(g, params=(*g.params, Param("more")))),
            "does not give 'more'",
        ),
        (with_attrs(J, LOOP + 1, after=Ref(RUNTIME_FORK)), "neither a Loop nor a Call"),
    ],
    "variables are set": [
        (with_attrs(S, find(S, Op.VARIABLE), name="other"), "'other' is not set by the join"),
        (with_attrs(S, find(S, Op.VARIABLE, 1), name="long"), "not set by summary"),
        (
            with_body(
                J,
                1,
                lambda g: replace(
                    g,
                    nodes=(
                        *g.nodes[:3],
                        replace(g.nodes[3], attrs={"name": "typo", "of": Ref(2)}),
                        g.nodes[4],
                    ),
                ),
            ),
            "'typo' is not set in any branch",
        ),
    ],
    "parameters of model calls are valid": [
        (with_attrs(S, GEN, max_tokens=-1), "max_tokens=-1"),
        (with_attrs(S, GEN, temperature="hot"), "temperature='hot'"),
        (with_attrs(S, GEN, regex="("), "regex: position 0: missing )"),
        (with_attrs(S, GEN, grammar="start: ("), "grammar: "),
        (with_attrs(S, GEN, grammar="start: a\n%import .b.a"), "%import"),
        (with_attrs(S, GEN, regex=r"(a)\1"), "a back-reference is not supported"),
        (with_attrs(S, GEN, regex="a(?!)"), "no text is legal"),
        (with_attrs(S, GEN, json_schema={"type": 3}), "json_schema: #/type: "),
        (with_attrs(S, GEN, json_schema={"not": {}, "$ref": "x"}), "json_schema: #"),
        (with_attrs(S, GEN, json_schema=False), "no value is valid"),
        (with_attrs(S, GEN, json_style="compact"), "json_style goes with json_schema"),
        (with_attrs(S, GEN, json_schema=True, json_style="wide"), "compact, spaced, pretty"),
        (with_attrs(S, GEN, regex="a", dtype="int"), "one constraint"),
        (with_attrs(S, GEN, regex="a", dtype=Ref(3)), "one constraint"),
        (with_attrs(S, SELECT, choices=()), "empty"),
        (with_attrs(S, SELECT, choices=("a", "b", "a")), "'a' stands there twice"),
        (with_attrs(S, SELECT, choices=("a", "")), "empty string"),
        (with_attrs(S, SELECT, method="best"), "expected one of"),
    ],
    "gens can finish in their budget": [
        (with_attrs(S, GEN, min_tokens=49), "min_tokens=49 is more than max_tokens=48"),
        (with_attrs(S, GEN, max_tokens=0, dtype="int"), "needs at least one character"),
        (with_attrs(S, GEN, max_tokens=0, regex="a+"), "needs at least one character"),
        (with_attrs(S, GEN, max_tokens=0, json_schema=True), "needs at least one character"),
        (with_attrs(S, GEN, max_tokens=0, grammar='start: "a"'), "needs at least one"),
    ],
}


def test_a_body_is_walked_before_its_own_attributes_are_checked() -> None:
    for attrs in ({"fn": "set", "args": 1.5}, {"fn": "set", "args": "ab"}):
        assert "args" in str(refusal(body_node(J, 0, op=Op.EXPR, attrs=attrs)))
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
