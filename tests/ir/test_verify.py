"""One seeded defect a rule: the verifier names graph, node and source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ir.samples import Builder, essay_judge, static_judge

from sgc_ir.errors import CompileError
from sgc_ir.graph import UNSET, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import Op
from sgc_ir.text import parse_program
from sgc_ir.verify import RULES, verify

Edit = Callable[[list[Node]], None]


def program(*params: Param, tools: dict[str, str] | None = None, **graphs: Graph) -> Program:
    return Program("main", graphs, tools=tools or {})


def build(fill: Callable[[Builder], Any], *params: Param, **vars: Any) -> Program:
    """A program of one graph that `fill` adds nodes to; it returns the program's value."""
    b = Builder("main.py")
    value = fill(b)
    return Program("main", {"main": b.graph("main", *params, value=value, vars=vars)})


def refusal(bad: Program) -> CompileError:
    with pytest.raises(CompileError) as caught:
        verify(bad)
    return caught.value


def edited(base: Program, node_id: int, **changes: Any) -> Program:
    """`base` with fields of one node of its main graph changed."""
    graph = base.graph
    nodes = list(graph.nodes)
    nodes[node_id] = replace(nodes[node_id], **changes)
    return replace(base, graphs={**base.graphs, base.main: replace(graph, nodes=tuple(nodes))})


def with_attrs(base: Program, node_id: int, **attrs: Any) -> Program:
    kept = base.graph.nodes[node_id].attrs
    return edited(base, node_id, attrs={**kept, **attrs})


def without_attr(base: Program, node_id: int, name: str) -> Program:
    kept = {k: v for k, v in base.graph.nodes[node_id].attrs.items() if k != name}
    return edited(base, node_id, attrs=kept)


def find(base: Program, op: Op, nth: int = 0) -> int:
    return [node.id for node in base.graph.nodes if node.op is op][nth]


def with_body(base: Program, nth: int, change: Callable[[Graph], Graph]) -> Program:
    at = find(base, Op.LOOP, nth)
    body = base.graph.nodes[at].body
    assert body is not None
    return edited(base, at, body=change(body))


def body_node(base: Program, node_id: int, **changes: Any) -> Program:
    def change(body: Graph) -> Graph:
        nodes = list(body.nodes)
        nodes[node_id] = replace(nodes[node_id], **changes)
        return replace(body, nodes=tuple(nodes))

    return with_body(base, 0, change)


def test_samples_are_valid() -> None:
    verify(essay_judge())
    verify(static_judge())
    for program in (IF, LOOPING, UNSETTING, TRYING):
        verify(program)


def test_errors_name_graph_node_and_source() -> None:
    error = refusal(with_attrs(static_judge(), 0, role="nobody"))
    assert (error.file, error.line) == ("static.py", 4)
    assert str(error).startswith("static.py:4: graph judge: node %0 RoleBegin: attribute role")


J, S = essay_judge(), static_judge()


def race(attrs: str) -> Program:
    """A program with a `First` of these attributes, a sub-program %1 and two forks, %2 and %5."""
    nodes = f"""
      %0 = Argument name="n"
      %1 = SubProgram callee="sub" args={{}} ordinal=0
      %2 = Fork ordinal=0 width=1
      %3 = GetForkItem fork=%2 index=0
      %4 = Gen in %3 name="a" ordinal=0
      %5 = Fork ordinal=1 width=%0
      %6 = First {attrs}
      %7 = Return value=%6 vars={{}}
    """
    graphs = f"graph main(n) {{{nodes}}} graph sub() {{ %0 = Return value=1 vars={{}} }}"
    return parse_program(f"program main {graphs}", check=False)


def chosen(attrs: str) -> Program:
    """A program with a GetForkItem of these attributes, and forks %1, %2, %4 (in a turn), %5."""
    nodes = f"""
      %0 = Argument name="n"
      %1 = Fork ordinal=0 width=1
      %2 = Fork ordinal=1 width=2
      %3 = RoleBegin role="user"
      %4 = Fork ordinal=2 width=2
      %5 = Fork ordinal=3 width=%0
      %6 = RoleEnd role="user"
      %7 = GetForkItem {attrs}
      %8 = Return value=%0 vars={{}}
    """
    return parse_program(f"program main graph main(n) {{{nodes}}}", check=False)


GEN, SELECT, JOIN = find(S, Op.GEN), find(S, Op.SELECT), find(S, Op.JOIN)
FORK, CALL, SUB, LOOP = (
    find(S, Op.FORK),
    find(S, Op.CALL),
    find(S, Op.SUB_PROGRAM),
    find(J, Op.LOOP),
)
RUNTIME_FORK = find(J, Op.FORK)
TEXT, EXPR, ITEM = find(S, Op.CONSTANT_TEXT), find(J, Op.EXPR), find(S, Op.GET_FORK_ITEM)
LAST = len(S.graph.nodes) - 1


def branching() -> Program:
    """One gen in each arm of an if, a fork in the second, and a merge of what they wrote."""
    b = Builder("if.py")
    first = b.add(Op.GEN, name="a", ordinal=0)
    branch = b.add(Op.BRANCH, cond=first)
    yes = b.add(Op.GEN, control=(branch, True), name="b", ordinal=1)
    no = b.add(Op.GEN, control=(branch, False), name="b", ordinal=1)
    fork = b.add(Op.FORK, control=(branch, False), ordinal=0, width=1)
    item = b.add(Op.GET_FORK_ITEM, control=(branch, False), fork=fork, index=0)
    b.add(Op.CONSTANT_TEXT, item, control=(branch, False), text="x")
    arms = ((branch, True), (branch, False))
    merged = b.add(Op.MERGE, values=(yes, no), tokens=arms)
    return Program("main", {"main": b.graph("main", value=merged, vars={"b": merged})})


def looping(entry: Any) -> Program:
    """A loop that carries a slot, and a loop around nothing else."""
    inner = Builder("loop.py")
    n = inner.add(Op.ARGUMENT, name="n")
    more = inner.add(Op.EXPR, fn="is_set", args=(n,))
    body = inner.graph(
        "main.loop", Param("i", default=0), Param("n", default=0), value=more, vars={"n": more}
    )
    b = Builder("loop.py")
    loop = b.add(
        Op.LOOP,
        over=([1, 2],),
        item_params=("i",),
        index_param=None,
        captures={},
        carried={"n": entry},
        body=body,
    )
    out = b.add(Op.VARIABLE, name="n", of=loop, field="output")
    last = b.add(Op.VARIABLE, name="kind", of=loop, field="kind")
    return Program("main", {"main": b.graph("main", value=[out, last])})


def unsetting() -> Program:
    """The output of a loop without a first value, merged, and asked whether it is set."""
    b = Builder("unset.py")
    loop = looping(UNSET).graph.nodes[0]
    b.nodes.append(loop)
    out = b.add(Op.VARIABLE, name="n", of=Ref(0), field="output")
    again = b.add(Op.VARIABLE, name="v", of=out)
    merged = b.add(Op.EXPR, fn="default", args=(out, 0))
    assert again != merged
    return Program("main", {"main": b.graph("main", value=merged, vars={"v": out})})


def with_body_return(base: Program, **attrs: Any) -> Program:
    body = base.graph.nodes[0].body
    assert body is not None
    return body_node(base, -1, attrs={**body.nodes[-1].attrs, **attrs})


def trying() -> Program:
    """A reading whose error is taken, and looked at."""
    b = Builder("main.py")
    gen = b.add(Op.GEN, name="v", ordinal=0)
    read = b.add(Op.VARIABLE, name="v", of=gen)
    b.add(Op.BRANCH, cond=read, on="failed", catch=("GenerationError",))
    b.add(Op.VARIABLE, name="error", of=Ref(2), field="error", control=(Ref(2), True))
    return Program("main", {"main": b.graph("main", value="done", vars={})})


IF, LOOPING, UNSETTING, TRYING = branching(), looping(0), unsetting(), trying()
IF_MERGE, IF_RETURN = find(IF, Op.MERGE), find(IF, Op.RETURN)

DEFECTS: dict[str, tuple[str, list[tuple[Program, str]]]] = {
    "ids are positions, ops are known": (
        "position",
        [(edited(S, 3, id=7), "position 3"), (edited(S, 3, op="Gem"), "no kind of node")],
    ),
    "attributes are those of the op, of the right type": (
        "attribute",
        [
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
    ),
    "values are plain data": (
        "plain",
        [
            (with_attrs(S, CALL, args=(object(),)), "holds a object"),
            (with_attrs(S, CALL, args=({Ref(0): 1},)), "reference as a key"),
        ],
    ),
    "operands are earlier and have a value": (
        "operand",
        [
            (with_attrs(S, CALL, args=(Ref(CALL),)), "not earlier"),
            (with_attrs(S, CALL, args=(Ref(10**6),)), "not earlier"),
            (with_attrs(S, CALL, args=(Ref(-1),)), "not earlier"),
            (with_attrs(S, CALL, args=(Ref(0),)), "a RoleBegin has no value"),
        ],
    ),
    "control comes from earlier branches": (
        "control",
        [
            (edited(S, TEXT, control=(0, True)), "no earlier Branch"),
            (edited(S, TEXT, control=(99, True)), "no earlier Branch"),
            (with_attrs(IF, IF_MERGE, tokens=()), "joins no tokens"),
            (with_attrs(IF, IF_MERGE, values=(1,)), "1 values for 2 tokens"),
            (with_attrs(IF, IF_MERGE, tokens=((Ref(0), True),) * 2), "no earlier Branch"),
            (edited(IF, IF_MERGE, control=(1, True)), "where a Merge stands"),
            (edited(IF, IF_RETURN, control=(IF_MERGE, False)), "has no other arm"),
            (edited(IF, IF_RETURN, control=(1, 1)), "neither true nor false"),
        ],
    ),
    "operands are there on every path": (
        "arrival",
        [
            (with_attrs(IF, IF_RETURN, value=Ref(2)), "%2, which is not there on every path"),
            (with_attrs(IF, IF_MERGE, values=(Ref(2), Ref(2))), "not there on every path"),
            (with_attrs(IF, 3, max_tokens=Ref(2)), "not there on every path"),
            (edited(IF, IF_MERGE - 1, control=None), "uses %5"),
        ],
    ),
    "loops carry what their bodies return": (
        "carried",
        [
            (with_attrs(LOOPING, 0, over=(), item_params=()), "lists to walk, or a max"),
            (with_attrs(LOOPING, 0, carried={}), "'n' is returned, but not carried"),
            (body_node(LOOPING, -1, attrs={"value": 1, "vars": {}}), "carried, but not returned"),
            (with_attrs(LOOPING, 1, name="m"), "output 'm', which %0 does not carry"),
            (with_attrs(LOOPING, 2, of=Ref(1)), "reads an output of %1, a Variable"),
            (with_attrs(LOOPING, 3, kind=1), "only the Return of a body"),
            (with_body_return(LOOPING, kind=3), "must be 0, 1 or 2"),
        ],
    ),
    "failures are taken where they may happen": (
        "failures",
        [
            (with_attrs(TRYING, 2, cond=Ref(0)), "no reading, call, Loop or Expr"),
            (with_attrs(TRYING, 2, cond=True), "no reading, call, Loop or Expr"),
            (with_attrs(TRYING, 2, catch=()), "takes no kind of error"),
            (edited(TRYING, 3, control=(2, False)), "where it may have taken none"),
            (with_attrs(TRYING, 3, of=Ref(1)), "what is no Branch on failures"),
        ],
    ),
    "what may be unset is not read": (
        "unset",
        [
            (with_attrs(UNSETTING, 3, fn="list"), "reads %1, which may be unset"),
            (with_attrs(UNSETTING, 4, value=Ref(1)), "reads %1, which may be unset"),
            (with_attrs(UNSETTING, 4, vars={"v": UNSET}), "holds UNSET"),
        ],
    ),
    "expressions apply known functions": (
        "expr",
        [
            (with_attrs(J, EXPR, fn="eval"), "'eval' is not among"),
            (with_attrs(J, EXPR, fn="len", args=(1, 2)), "1 operand"),
            (with_attrs(J, EXPR, kwargs={"key": 1}), "no keyword"),
        ],
    ),
    "forks have branches": (
        "fork",
        [
            (with_attrs(J, RUNTIME_FORK, width=0), "width 0"),
            (with_attrs(J, RUNTIME_FORK, items=(1,)), "either width or items"),
            (without_attr(J, RUNTIME_FORK, "width"), "either width or items"),
            (with_attrs(J, RUNTIME_FORK, copy=True), "exactly one branch"),
            (build(lambda b: b.add(Op.VIDEO, data="a", num_frames=0) and None), "num_frames"),
        ],
    ),
    "one Return, at the end": (
        "return",
        [
            (replace(S, graphs={**S.graphs, "judge": replace(S.graph, nodes=())}), "Return"),
            (edited(S, LAST, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "does not end"),
            (edited(S, TEXT, op=Op.RETURN, attrs={"value": 1, "vars": {}}), "before the end"),
        ],
    ),
    "parameters are named and typed": (
        "param",
        [
            (with_attrs(S, find(S, Op.ARGUMENT), name="other"), "no parameter 'other'"),
            (build(lambda b: None, Param("a b")), "no name"),
            (build(lambda b: None, Param("a"), Param("a")), "stands there twice"),
            (build(lambda b: None, Param("a", keyword_only=True), Param("b")), "follows keyword"),
            (build(lambda b: None, Param("a", "list[")), "not a type"),
            (build(lambda b: None, Param("a", default=Ref(0))), "reference"),
            (build(lambda b: None, Param("a", default=set())), "holds a set"),
        ],
    ),
    "streams are open": (
        "stream",
        [
            (edited(S, TEXT, stream=0), "no earlier GetForkItem opened"),
            (edited(S, TEXT, stream=ITEM), "no earlier GetForkItem opened"),
            (edited(S, TEXT, stream=-2), "no earlier GetForkItem opened"),
        ],
    ),
    "branches belong to forks": (
        "branch",
        [
            (with_attrs(S, ITEM, index=3), "branch 3 of a fork of width 3"),
            (with_attrs(S, ITEM + 1, index=0), "a second time"),
            (with_attrs(S, ITEM, fork=Ref(TEXT)), "not a Fork"),
            (with_attrs(S, ITEM, fork=Ref(find(S, Op.ARGUMENT))), "no captured fork"),
        ],
    ),
    "joined branches rest": (
        "join",
        [
            (
                edited(S, find(S, Op.ROLE_END, 8), stream=ITEM),
                "appends to a branch that %29 has joined",
            ),
            (with_attrs(S, JOIN, vars={"judgment": [Ref(GEN)]}), "one writer for each of 3"),
            (with_attrs(S, JOIN, mode="append"), "has vars"),
            (edited(S, JOIN, stream=ITEM), "another stream"),
        ],
    ),
    "branches of several forks": (
        "chosen",
        [
            (chosen("fork=%1 index=%0 more=()"), "each of them once"),
            (chosen("fork=%1 index=%0 more=(%2, %1)"), "each of them once"),
            (chosen("fork=%1 index=%0 more=(%5,)"), "no constant width"),
            (chosen("fork=%1 index=%0 more=(%0,)"), "no constant width"),
            (chosen("fork=%1 index=0 more=(%2,)"), "name the fork"),
            (chosen("fork=%1 index=%0 more=(%4,)"), "different open roles"),
        ],
    ),
    "races have branches": (
        "race",
        [
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
    ),
    "roles do not nest and are closed": (
        "role",
        [
            (edited(S, 2, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "roles do not nest"),
            (with_attrs(S, 2, role="user"), "ends user, but system is open"),
            (edited(S, 0, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "no role is open"),
            (edited(S, LAST - 1, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "is not closed"),
            (body_node(J, 10, op=Op.CONSTANT_TEXT, attrs={"text": ""}), "is not closed"),
        ],
    ),
    "paths are unique": (
        "path",
        [
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
    ),
    "callees exist and get their arguments": (
        "callee",
        [
            (with_attrs(S, SUB, callee="nobody"), "no graph of the program"),
            (with_attrs(S, SUB, args={}), "does not give 'text'"),
            (with_attrs(S, SUB, args={"text": 1, "more": 2}), "gives 'more'"),
        ],
    ),
    "tools are listed": (
        "tool",
        [
            (replace(S, tools={}), "does not list"),
            (replace(S, tools={"search": "irreversible"}), "lists it as irreversible"),
        ],
    ),
    "loops bind their body's parameters": (
        "loop",
        [
            (with_attrs(J, LOOP, item_params=("f",)), "one item parameter for each"),
            (with_attrs(J, LOOP, index_param="f"), "twice"),
            (with_attrs(J, LOOP, index_param="i"), "gives 'i'"),
            (
                with_body(J, 0, lambda g: replace(g, params=(*g.params, Param("more")))),
                "does not give 'more'",
            ),
            (with_attrs(J, LOOP + 1, after=Ref(RUNTIME_FORK)), "neither a Loop nor a Call"),
        ],
    ),
    "variables are set": (
        "variable",
        [
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
    ),
    "parameters of model calls are valid": (
        "gen",
        [
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
    ),
    "gens can finish in their budget": (
        "budget",
        [
            (with_attrs(S, GEN, min_tokens=49), "min_tokens=49 is more than max_tokens=48"),
            (with_attrs(S, GEN, max_tokens=0, dtype="int"), "needs at least one character"),
            (with_attrs(S, GEN, max_tokens=0, regex="a+"), "needs at least one character"),
            (with_attrs(S, GEN, max_tokens=0, json_schema=True), "needs at least one character"),
            (with_attrs(S, GEN, max_tokens=0, grammar='start: "a"'), "needs at least one"),
        ],
    ),
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
    for bad, words in DEFECTS[law][1]:
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
    verify(Program("n0", {**chain, "n300": Graph("n300", nodes=(_end(),))}))


def _end() -> Node:
    return Node(0, Op.RETURN, attrs={"value": None, "vars": {}})


def test_a_path_repeated_in_every_pass_is_refused() -> None:
    inner = Builder()
    inner.add(Op.CALL, tool="t", effect="pure", args=(), ordinal=0)
    body = inner.graph("body", Param("x"))

    def fill(b: Builder, stream: Ref | None = None) -> Ref:
        return b.add(
            Op.LOOP,
            stream,
            body=body,
            over=([1],),
            item_params=("x",),
            index_param=None,
            captures={},
        )

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
