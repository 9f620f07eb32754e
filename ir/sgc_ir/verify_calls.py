"""Verifier rules across graphs: parameters, callees, tools, loops, variables, the Return."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sgc_ir.graph import MISSING, Graph, Node, Program, is_constant, iter_refs
from sgc_ir.ops import Op
from sgc_ir.types import parse_type
from sgc_ir.verify_attrs import EFFECTS, value_problem
from sgc_ir.verify_scope import Faults, Scope, constant_width

_WRITTEN = "names written anywhere"


def program_facts(program: Program) -> Iterator[str]:
    """What is wrong with the program as a whole."""
    if program.main not in program.graphs:
        yield f"main graph {program.main!r} is not among its graphs"
    for name, graph in program.graphs.items():
        if graph.name != name or not name:
            yield f"graph {graph.name!r} is listed as {name!r}"
    for name in program.outputs or ():
        if not isinstance(name, str) or not name:
            yield f"output {name!r} is not a name"
    for tool, effect in program.tools.items():
        if not isinstance(tool, str) or effect not in EFFECTS:
            yield f"tool {tool!r} has effect {effect!r}; it must be one of {', '.join(EFFECTS)}"
    problem = value_problem(dict(program.notes))
    if problem or not is_constant(dict(program.notes)):
        yield f"its notes {problem or 'hold a reference'}"


def recursion(program: Program) -> str | None:
    """The first circle of graphs that call each other, or None."""
    calls = {name: sorted(set(_callees(graph))) for name, graph in program.graphs.items()}
    done: set[str] = set()
    for start in calls:
        trail: list[str] = []
        on_trail: set[str] = set()
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                done.add(trail.pop())
                on_trail.discard(name)
            elif name in on_trail:
                return " -> ".join([*trail[trail.index(name) :], name])
            elif name not in done and name in calls:
                trail.append(name)
                on_trail.add(name)
                stack.append((name, True))
                stack.extend((callee, False) for callee in reversed(calls[name]))
    return None


def _callees(graph: Graph) -> Iterator[str]:
    return (node.attrs["callee"] for node in graph.walk() if node.op is Op.SUB_PROGRAM)


def parameters(scope: Scope) -> Faults:
    names: set[str] = set()
    keyword_only = False
    for param in scope.graph.params:
        if keyword_only and not param.keyword_only:
            yield None, f"parameter {param.name!r} follows keyword-only ones"
        keyword_only = param.keyword_only
        if not param.name.isidentifier() or param.name in names:
            yield None, f"parameter {param.name!r} is no name or stands there twice"
        names.add(param.name)
        problem = None if param.default is MISSING else value_problem(param.default)
        if problem or not is_constant(param.default):
            yield None, f"the default of {param.name} {problem or 'holds a reference'}"
        try:
            parse_type(param.annotation)
        except ValueError as error:
            yield None, f"parameter {param.name}: {error}"
    for node in scope.graph.nodes:
        if node.op is Op.ARGUMENT and node.attrs["name"] not in names:
            yield node, f"there is no parameter {node.attrs['name']!r}"


def returns(scope: Scope) -> Faults:
    nodes = scope.graph.nodes
    if not nodes or nodes[-1].op is not Op.RETURN:
        yield (nodes[-1] if nodes else None), "the graph does not end in a Return"
    for node in nodes:
        if node.op is Op.RETURN and node.id != len(nodes) - 1:
            yield node, "a Return stands before the end"


def callees(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is not Op.SUB_PROGRAM:
            continue
        callee = scope.program.graphs.get(node.attrs["callee"])
        if callee is None:
            yield node, f"calls {node.attrs['callee']!r}, which is no graph of the program"
            continue
        yield from _argument_faults(node, node.attrs["args"], callee)


def _argument_faults(node: Node, given: Any, graph: Graph) -> Faults:
    known = {param.name for param in graph.params}
    for name in given:
        if name not in known:
            yield node, f"gives {name!r}, which {graph.name} does not take"
    for param in graph.params:
        if param.default is MISSING and param.name not in given:
            yield node, f"does not give {param.name!r} to {graph.name}"


def tools(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is not Op.CALL:
            continue
        tool, effect = node.attrs["tool"], node.attrs["effect"]
        listed = scope.program.tools.get(tool)
        if listed is None:
            yield node, f"calls tool {tool!r}, which the program does not list"
        elif listed != effect:
            yield node, f"calls tool {tool!r} as {effect}, the program lists it as {listed}"


def loops(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        for after in iter_refs(node.attrs.get("after")):
            if scope.node(after).op not in (Op.LOOP, Op.CALL):
                yield node, f"runs after %{after.node}, which is neither a Loop nor a Call"
        if node.op is not Op.LOOP or node.body is None:
            continue
        items, index = node.attrs["item_params"], node.attrs["index_param"]
        if len(items) != len(node.attrs["over"]):
            yield node, "needs one item parameter for each operand that it walks"
        carried = node.attrs.get("carried", {})
        bound = [*items, *([index] if index else []), *node.attrs["captures"], *carried]
        if len(set(bound)) != len(bound):
            yield node, "binds a parameter of its body twice"
        yield from _argument_faults(node, bound, node.body)


def variables(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is not Op.VARIABLE:
            continue
        field = node.attrs.get("field", "value")
        if "of" not in node.attrs and field not in ("stream_text", "stream_messages"):
            yield node, "lacks attribute of"
        elif field in ("value", "meta"):
            reason = _unset(scope, node)
            if reason:
                yield node, reason


def _unset(scope: Scope, node: Node) -> str | None:
    """Only what is certain before a run."""
    name, writer = node.attrs["name"], scope.node(node.attrs["of"])
    if writer.op is Op.JOIN and "vars" in writer.attrs and name not in writer.attrs["vars"]:
        return f"variable {name!r} is not set by the join %{writer.id}"
    if writer.op is Op.SUB_PROGRAM:
        graph = scope.program.graphs.get(writer.attrs["callee"])
        if graph is not None and name not in returned(graph):
            return f"variable {name!r} is not set by {graph.name}"
    if writer.op is Op.GET_FORK_ITEM or (writer.op is Op.JOIN and "vars" not in writer.attrs):
        fork = scope.fork_of(writer)
        if constant_width(fork) is None and name not in _written_anywhere(scope):
            return f"variable {name!r} is not set in any branch"
    return None


def returned(graph: Graph) -> Any:
    """Names of the variables that a graph returns; it may not have been verified yet."""
    last = graph.nodes[-1] if graph.nodes else None
    named = last.attrs.get("vars") if last is not None and last.op is Op.RETURN else None
    return named if isinstance(named, dict) else {}


def _written_anywhere(scope: Scope) -> set[Any]:
    while scope.outer is not None:
        scope = scope.outer
    if _WRITTEN not in scope.memo:
        scope.memo[_WRITTEN] = set(_writes(scope.graph))
    written: set[Any] = scope.memo[_WRITTEN]
    return written


def _writes(graph: Graph) -> Iterator[str]:
    """Names that nodes write, bodies included; those may not have been verified yet."""
    for node in graph.walk():
        names: Any = ()
        if node.op in (Op.GEN, Op.SELECT):
            names = (node.attrs.get("name"),)
        elif node.op is Op.EXPR and node.attrs.get("fn") == "set":
            args = node.attrs.get("args")
            names = args[:1] if isinstance(args, tuple) else ()
        elif node.op is Op.JOIN:
            joined = node.attrs.get("vars")
            names = joined if isinstance(joined, dict) else ()
        yield from (name for name in names if isinstance(name, str))
