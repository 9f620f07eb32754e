"""Valid graphs to edit, and edits that break a law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ir.samples import Builder, essay_judge, static_judge

from sgc_ir.graph import UNSET, Graph, Param, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.text import parse_program


def program(*params: Param, tools: dict[str, str] | None = None, **graphs: Graph) -> Program:
    return Program("main", graphs, tools=tools or {})


def build(fill: Callable[[Builder], Any], *params: Param, **vars: Any) -> Program:
    """A program of one graph that `fill` adds nodes to; it returns the program's value."""
    b = Builder("main.py")
    value = fill(b)
    return Program("main", {"main": b.graph("main", *params, value=value, vars=vars)})


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
