"""Row constants: arguments that are the same in every row of a run become constants of its graph.

Requires: `Context.arguments` holds values that each row of the run gives (or leaves to the default)
for the arguments of the main graph. Keeps behaviour, because an argument's value is all that its
nodes give; its parameter stays, so that rows are checked as before. What names the node (what a
loop walks, a fork's items) still reads the argument. What a loop captures becomes a constant of its
body. The result is good for these rows only, and is not what `sgc compile` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sgc_ir.errors import ExprError
from sgc_ir.expr import evaluate
from sgc_ir.graph import Graph, Node, Program
from sgc_ir.ops import Op
from sgc_ir.passes.base import Change, Context, Notes, Report
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.uses import named_nodes, reader_counts, with_values
from sgc_ir.passes.values import is_plain, shown

NAME = "rows"


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Put the values in."""
    known = {name: v for name, v in context.arguments.items() if is_plain(v)}
    changes: list[Change] = []
    graph = _put_in(program.graph, program.main, known, changes) if known else program.graph
    if graph is program.graph:
        return program, Report(NAME)
    graphs = {**program.graphs, program.main: graph}
    return replace(program, graphs=graphs), Report(NAME, tuple(changes))


def _put_in(graph: Graph, where: str, known: Mapping[str, Any], changes: list[Change]) -> Graph:
    editor, notes = Editor(graph), Notes(graph, where, changes)
    named = named_nodes(graph)
    constants: dict[int, Any] = {}
    for node in graph.nodes:
        if node.op is Op.ARGUMENT and node.attrs["name"] in known:
            value = known[node.attrs["name"]]
            constants[node.id] = value
            if node.attrs.get("append") and node.id not in named:
                _append(editor, node, value, notes)
        elif constants and any(ref.node in constants for ref in node.refs()):
            attrs = with_values(node, lambda ref: constants.get(ref.node, ref))
            editor.update(node.id, attrs=attrs)
            if node.body is not None:
                _put_into_body(editor, node, where, constants, changes)
    return _without_unread(editor.done(), notes, known)


def _append(editor: Editor, node: Node, value: Any, notes: Notes) -> None:
    try:
        text = value if isinstance(value, str) else evaluate("text", (value,))
    except ExprError:
        return  # too long to be printed; each row says so
    editor.update(node.id, op=Op.CONSTANT_TEXT, attrs={"text": text})
    notes.add(node, f"{node.attrs['name']} is the text {shown(text)} in every row")


def _put_into_body(
    editor: Editor, loop: Node, where: str, constants: Mapping[int, Any], changes: list[Change]
) -> None:
    captures = loop.attrs["captures"]
    given = {p: constants[ref.node] for p, ref in captures.items() if ref.node in constants}
    if not given or loop.body is None:
        return
    body = _put_in(loop.body, f"{where}.%{loop.id}", given, changes)
    read = {n.attrs["name"] for n in body.nodes if n.op is Op.ARGUMENT}
    gone = given.keys() - read
    params = tuple(p for p in body.params if p.name not in gone)
    editor.set_attrs(loop.id, {"captures": {p: r for p, r in captures.items() if p not in gone}})
    editor.update(loop.id, body=replace(body, params=params))


def _without_unread(graph: Graph, notes: Notes, known: Mapping[str, Any]) -> Graph:
    """The graph without its argument nodes that nothing reads any more."""
    read = reader_counts(graph)
    editor = Editor(graph)
    for node in graph.nodes:
        if node.op is Op.ARGUMENT and node.attrs["name"] in known and node.id not in read:
            if not node.attrs.get("append"):
                editor.drop(node.id)
                value = known[node.attrs["name"]]
                notes.add(node, f"{node.attrs['name']} is {shown(value)} in every row")
    return editor.done()
