"""Pictures as mermaid flowcharts."""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.drawing.model import Box, Item, picture
from sgc_ir.graph import Program
from sgc_ir.ops import Op

_SHAPES = {
    Op.GEN: ("([", "])"),
    Op.SELECT: ("([", "])"),
    Op.CALL: ("[[", "]]"),
    Op.SUB_PROGRAM: ("[[", "]]"),
    Op.FORK: ("{{", "}}"),
    Op.JOIN: ("{{", "}}"),
    Op.FIRST: ("{{", "}}"),
    Op.GET_FORK_ITEM: ("(", ")"),
    Op.BRANCH: ("{", "}"),
}


def mermaid(program: Program) -> str:
    """A mermaid flowchart of the program; solid arrows are stream order, dotted ones data."""
    lines = ["flowchart TB"]
    for box in picture(program):
        lines.extend(_box(box, box.key, "  "))
    return "\n".join(lines) + "\n"


def _box(box: Box, key: str, indent: str) -> Iterator[str]:
    yield f'{indent}subgraph {key}["{escaped(box.title)}"]'
    yield f"{indent}  direction TB"
    for item in box.items.values():
        yield from _item(item, indent + "  ")
    yield f"{indent}end"
    for edge in box.edges:
        arrow = "-->" if edge.kind == "order" else "-.->"
        arrow += f"|{escaped(edge.label)}|" if edge.label else ""
        yield f"{indent}{box.items[edge.source].key} {arrow} {box.items[edge.target].key}"


def _item(item: Item, indent: str) -> Iterator[str]:
    if item.box is not None:
        yield from _box(item.box, item.key, indent)
        return
    left, right = _SHAPES.get(item.node.op, ("[", "]"))
    label = "<br/>".join(escaped(line) for line in item.lines)
    yield f'{indent}{item.key}{left}"{label}"{right}'


def escaped(text: str) -> str:
    """Everything that is not a plain letter, digit or harmless mark as a character code."""
    safe = " .,:=()[]{}+-*/'!?_…⏎→·×"
    return "".join(c if c.isalnum() or c in safe else f"#{ord(c)};" for c in text)
