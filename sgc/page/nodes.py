"""What a page tells of each node: its line of the text form, its whole text, its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.page.drawing import Shown
from sgc_ir.graph import Node
from sgc_ir.ops import Op
from sgc_ir.textform.printer import print_node

MAX_TEXT = 4_000  # characters of a text that a page shows; what is cut is counted


def node_data(shown: Sequence[Shown], facts: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """One dict a node, in the order of `shown`; `facts` are sentences about each."""
    return [
        _node(found) | ({"facts": list(known)} if known else {})
        for found, known in zip(shown, facts, strict=True)
    ]


def _node(found: Shown) -> dict[str, Any]:
    node = found.item.node
    data: dict[str, Any] = {
        "id": node.id,
        "op": node.op.value,
        "graph": found.graph,
        "path": found.item.path,
        "name": name_of(node),
        "label": " ".join(found.item.lines),
        "source": str(node.source) if node.source.line else "",
        "line": cut(print_node(node, found.file)),
    }
    text = _whole_text(node)
    return data | ({"text": cut(text)} if text is not None else {})


def name_of(node: Node) -> str:
    """Variable, tool or callee of a node; empty where it has none."""
    for attribute in ("name", "tool", "callee"):
        if isinstance(node.attrs.get(attribute), str):
            return str(node.attrs[attribute])
    return ""


def _whole_text(node: Node) -> str | None:
    text = node.attrs.get("text") if node.op is Op.CONSTANT_TEXT else None
    return text if isinstance(text, str) else None


def cut(text: str) -> str:
    """The beginning of a long text, and how much is left out."""
    left = len(text) - MAX_TEXT
    return text if left <= 0 else f"{text[:MAX_TEXT]} … ({left:,} more characters)"


def source_lines(files: Mapping[str, Sequence[str]], shown: Sequence[Shown]) -> dict[str, str]:
    """`FILE:LINE` -> the line, for the nodes' places in `files` (lines by name)."""
    found: dict[str, str] = {}
    for item in shown:
        place = item.item.node.source
        lines = files.get(place.file, ())
        if 0 < place.line <= len(lines):
            found[str(place)] = cut(lines[place.line - 1].rstrip())
    return found
