"""Merging of texts: constants that follow each other in a stream become one; empty ones go.

Requires: nothing. Keeps behaviour, because what is appended between two model calls is tokenised
as one text, whatever pieces it comes in, and a constant cannot fail. Two texts are merged only
where nothing between them looks at the stream: no reading of its text, no loop whose passes append,
fork or read (they see the stream as it is where the loop stands), and only under the same control.
"""

from __future__ import annotations

from sgc_ir.graph import Graph, Node, Program
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.uses import named_nodes
from sgc_ir.passes.values import MAX_TEXT, shown

NAME = "texts"
_WHOLE = ("text", "messages", "stream_text", "stream_messages")  # fields that read a stream


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Merge the texts of every graph."""
    return each_graph(program, NAME, _merge)


def looks_at_streams(node: Node) -> bool:
    """Whether what a node gives may depend on where in a stream it stands, though it is none of
    the stream's own nodes."""
    if node.op is Op.VARIABLE:
        return node.attrs.get("field") in _WHOLE
    if node.body is None:
        return False
    return any(
        inner.op is Op.FORK or inner.appends or looks_at_streams(inner) for inner in node.body.nodes
    )


def _merge(graph: Graph, notes: Notes) -> Graph:
    editor = Editor(graph)
    named = named_nodes(graph)
    last: dict[int, Node] = {}  # stream -> its last node so far, where that is a constant text
    for node in graph.nodes:
        if looks_at_streams(node):
            last.clear()
        elif node.op is Op.CONSTANT_TEXT and node.id not in named:
            if not node.attrs["text"]:
                _leave_out(editor, node)
                notes.add(node, "is empty")
            elif not _joins(editor, last.get(node.stream), node, notes):
                last[node.stream] = node
        elif node.appends:
            last.pop(node.stream, None)
    return editor.done()


def _joins(editor: Editor, before: Node | None, node: Node, notes: Notes) -> bool:
    """Put `node` into the text before it, if there is one that it may join."""
    if before is None or before.control != node.control:
        return False
    text = editor.node(before.id).attrs["text"] + node.attrs["text"]
    if len(text) > MAX_TEXT:
        return False
    editor.replace_value(before.id, before.attrs["text"])
    editor.update(before.id, attrs={"text": text})
    _leave_out(editor, node)
    notes.add(node, f"joins the text {shown(before.attrs['text'])} before it")
    return True


def _leave_out(editor: Editor, node: Node) -> None:
    editor.replace_value(node.id, node.attrs["text"])
    editor.drop(node.id)
