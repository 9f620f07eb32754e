"""Dead-node elimination: what no declared output needs is left out, calls of models included.

Requires: `Program.outputs` is declared; else every node is an output and nothing is done. Keeps the
declared variables, the return value, the root stream's text and messages, and every tool whose
effect is not pure; it leaves calls out, and errors that only they could raise. A node is needed if
one of these reads it, or if it stands in a stream before a needed one, whose prompt it is part of.
An expression that may raise is kept where all that it reads is. Loops whose passes append to
streams are kept, and so are the programs that are called, as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sgc_ir.expr import FUNCTIONS
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref, forks_of, iter_refs
from sgc_ir.ops import Op
from sgc_ir.passes.base import Change, Context, Notes, Report
from sgc_ir.passes.editor import Editor

NAME = "dead"
_LISTED = (Op.GEN, Op.SELECT, Op.CALL, Op.SUB_PROGRAM, Op.FIRST, Op.LOOP)
_WHOLE = ("text", "messages", "stream_text", "stream_messages")


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Leave out what is not needed in the main graph."""
    if program.outputs is None:
        return program, Report(NAME)
    changes: list[Change] = []
    notes = Notes(program.graph, program.main, changes)
    graph = _without(program.graph, _Needs(program), notes)
    if graph is program.graph:
        return program, Report(NAME)
    graphs = _reached({**program.graphs, program.main: graph}, program.main)
    used = {n.attrs["tool"] for g in graphs.values() for n in g.walk() if n.op is Op.CALL}
    tools = {name: effect for name, effect in program.tools.items() if name in used}
    return replace(program, graphs=graphs, tools=tools), Report(NAME, tuple(changes))


def _reached(graphs: dict[str, Graph], main: str) -> dict[str, Graph]:
    """The graphs that are still called."""
    found, left = set[str](), [main]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            calls = (n for n in graphs[name].walk() if n.op is Op.SUB_PROGRAM)
            left += [node.attrs["callee"] for node in calls]
    return {name: graph for name, graph in graphs.items() if name in found}


def _without(graph: Graph, needs: _Needs, notes: Notes) -> Graph:
    editor = Editor(graph)
    for node in graph.nodes:
        if node.id not in needs.found:
            editor.drop(node.id)
            if node.op in _LISTED:
                notes.add(node, f"is left out: {_shown(node)}, which no output needs")
        elif node.op is Op.JOIN and node.attrs.get("vars") is not None:
            wanted = needs.joined.get(node.id, set())
            kept = {name: v for name, v in node.attrs["vars"].items() if name in wanted}
            if len(kept) < len(node.attrs["vars"]):
                editor.set_attrs(node.id, {"vars": kept})
    last = graph.nodes[-1]
    kept = {name: v for name, v in last.attrs["vars"].items() if needs.has(v, name)}
    if len(kept) < len(last.attrs["vars"]):
        editor.set_attrs(last.id, {"vars": kept})
    return editor.done()


def _shown(node: Node) -> str:
    what = node.attrs.get("name") or node.attrs.get("tool") or node.attrs.get("callee") or ""
    return f"{node.op} {what}".strip()


class _Needs:
    """What the declared outputs need.

    Attributes:
        found: nodes of the main graph that are needed.
        joined: Join -> the variables that are needed of it.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = program.graph
        self._nodes = program.graph.nodes
        self._outputs = program.outputs or ()
        self._effects = _graphs_with_effects(program)
        self._in_stream: dict[int, list[Node]] = {}
        self._ends: dict[int, int] = {}  # RoleBegin -> the RoleEnd that follows
        begins: dict[int, list[int]] = {}
        for node in self._nodes:
            self._in_stream.setdefault(node.stream, []).append(node)
            if node.op is Op.ROLE_BEGIN:
                begins.setdefault(node.stream, []).append(node.id)
            elif node.op is Op.ROLE_END:
                self._ends.update(dict.fromkeys(begins.pop(node.stream, ()), node.id))
        self.found: set[int] = set()
        self.joined: dict[int, set[str]] = {}
        self._left: list[Node] = []
        self._seen: dict[int, int] = {}  # stream -> how many of its nodes were looked at
        self._add_roots()
        self._run()
        self._add_partial()

    def has(self, operand: Any, name: str) -> bool:
        """Whether all that an operand of the Return reads is there."""
        for ref in iter_refs(operand):
            wanted = self.joined.get(ref.node, set())
            is_join = self._nodes[ref.node].op is Op.JOIN
            if ref.node not in self.found or (is_join and name not in wanted):
                return False
        return True

    def _add(self, node_id: int) -> None:
        if node_id not in self.found:
            self.found.add(node_id)
            self._left.append(self._nodes[node_id])

    def _run(self) -> None:
        while self._left:
            self._follow(self._left.pop())

    def _add_roots(self) -> None:
        last = self._nodes[-1]
        for node in self._nodes:
            in_root = node.stream == ROOT_STREAM and node.appends
            if node is last or in_root or self._acts(node):
                self._add(node.id)
        for name, operand in last.attrs["vars"].items():
            if name in self._outputs:
                self._add_operand(operand, name)

    def _add_partial(self) -> None:
        """Expressions that may raise and read nothing that is left out; operands are earlier, so
        one walk will do."""
        there: set[int] = set()  # values that cost no call
        for node in self._nodes:
            if node.op not in (Op.ARGUMENT, Op.VARIABLE, Op.EXPR) or node.appends:
                continue
            if any(ref.node not in self.found and ref.node not in there for ref in node.refs()):
                continue
            if _may_raise(node):
                self._add(node.id)
                self._run()
            there.add(node.id)

    def _acts(self, node: Node) -> bool:
        """Whether a node does something that is not seen in values."""
        if node.op is Op.CALL:
            return bool(node.attrs["effect"] != "pure")
        if node.op is Op.SUB_PROGRAM:
            return node.attrs["callee"] in self._effects
        if node.op is Op.EXPR:
            return bool(node.attrs["fn"] == "fail")
        if node.body is None:
            return False
        return any(inner.appends or self._acts(inner) for inner in node.body.walk())

    def _follow(self, node: Node) -> None:
        for ref in self._reads(node):
            self._add(ref.node)
        if node.control is not None:
            self._add(node.control[0])
        if node.stream != ROOT_STREAM:
            self._add(node.stream)
        if node.appends or node.attrs.get("field") in _WHOLE:
            self._add_before(node.stream, node.id)
        if node.op is Op.ROLE_BEGIN:  # a turn that is opened is closed
            self._add(self._ends.get(node.id, node.id))
        self._follow_streams(node)

    def _reads(self, node: Node) -> Iterator[Ref]:
        if node.op is Op.RETURN:
            yield from iter_refs([node.attrs["value"], node.attrs.get("kind")])
        elif node.op is Op.JOIN and node.attrs.get("vars") is not None:
            yield node.attrs["fork"]
        else:
            for name, value in node.attrs.items():
                if name != "after":
                    yield from iter_refs(value)

    def _follow_streams(self, node: Node) -> None:
        """What a node reads of other streams, by name or as a whole."""
        attrs = node.attrs
        if node.op is Op.JOIN and (attrs["mode"] == "append" or attrs.get("vars") is None):
            self._add_family(attrs["fork"].node)
        elif node.op is Op.FIRST and "fork" in attrs:
            self._add_family(attrs["fork"].node)
        elif node.op is Op.VARIABLE and isinstance(attrs.get("of"), Ref):
            self._add_operand(attrs["of"], attrs["name"])
            if (
                self._nodes[attrs["of"].node].op is Op.GET_FORK_ITEM
                and attrs.get("field") != "item"
            ):
                self._add_before(attrs["of"].node, len(self._nodes))
        elif node.body is not None:
            for ref in node.refs():
                if self._nodes[ref.node].op is Op.FORK:
                    self._add_family(ref.node)
                elif self._nodes[ref.node].op is Op.GET_FORK_ITEM:
                    self._add_before(ref.node, len(self._nodes))

    def _add_operand(self, operand: Any, name: str) -> None:
        """An operand that is read as variable `name`; of a join that is one of its variables."""
        for ref in iter_refs(operand):
            self._add(ref.node)
            node = self._nodes[ref.node]
            if node.op is not Op.JOIN or node.attrs.get("vars") is None:
                continue
            wanted = self.joined.setdefault(node.id, set())
            if name not in wanted:
                wanted.add(name)
                self._add_operand(node.attrs["vars"].get(name), name)

    def _add_before(self, stream: int, end: int) -> None:
        """What a stream holds in front of node `end`; each node is looked at once."""
        nodes, at = self._in_stream.get(stream, []), self._seen.get(stream, 0)
        while at < len(nodes) and nodes[at].id < end:
            node = nodes[at]
            if node.appends or (node.op is Op.EXPR and node.attrs["fn"] == "set"):
                self._add(node.id)
            at += 1
        self._seen[stream] = at

    def _add_family(self, fork: int) -> None:
        for node in self._nodes:
            if node.op is Op.GET_FORK_ITEM and fork in forks_of(node):
                self._add(node.id)
                self._add_before(node.id, len(self._nodes))


def _may_raise(node: Node) -> bool:
    return (
        node.op is Op.EXPR and node.attrs["fn"] != "set" and not FUNCTIONS[node.attrs["fn"]].total
    )


def _graphs_with_effects(program: Program) -> set[str]:
    """Graphs that call, themselves or through others, a tool whose effect is not pure."""
    found: set[str] = set()
    calls: dict[str, set[str]] = {}
    for name, graph in program.graphs.items():
        calls[name] = set()
        for node in graph.walk():
            if node.op is Op.CALL and node.attrs["effect"] != "pure":
                found.add(name)
            elif node.op is Op.SUB_PROGRAM:
                calls[name].add(node.attrs["callee"])
    while more := {n for n, called in calls.items() if n not in found and called & found}:
        found |= more
    return found
