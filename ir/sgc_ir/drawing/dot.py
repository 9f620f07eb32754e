"""Pictures in graphviz' language."""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.drawing.model import Box, Edge, Item, picture
from sgc_ir.drawing.words import visible
from sgc_ir.graph import Program
from sgc_ir.ops import Op

_STYLES = {
    Op.GEN: 'shape=box, style="rounded,filled", fillcolor="#dcebf7"',
    Op.SELECT: 'shape=box, style="rounded,filled", fillcolor="#dcebf7"',
    Op.CALL: "shape=component",
    Op.SUB_PROGRAM: "shape=component",
    Op.BRANCH: "shape=diamond",
    Op.FORK: "shape=hexagon",
    Op.JOIN: "shape=hexagon",
    Op.FIRST: "shape=hexagon",
    Op.GET_FORK_ITEM: "shape=plaintext",
    Op.ROLE_BEGIN: "shape=plaintext",
    Op.ROLE_END: "shape=plaintext",
}


def dot(program: Program) -> str:
    """A digraph, one cluster a graph or loop; solid arrows are stream order, dashed ones data."""
    lines = [
        f"digraph {_quoted(visible(program.main))} {{",
        "  compound=true;",
        '  node [shape=box, fontname="monospace", fontsize=10];',
        '  graph [fontname="monospace", fontsize=11];',
    ]
    for box in picture(program):
        lines.extend(_box(box, box.key, "  "))
    return "\n".join([*lines, "}"]) + "\n"


def _box(box: Box, key: str, indent: str) -> Iterator[str]:
    yield f"{indent}subgraph {_quoted('cluster_' + key)} {{"
    yield f"{indent}  label={_quoted(box.title)};"
    for item in box.items.values():
        yield from _item(item, indent + "  ")
    yield f"{indent}}}"
    for edge in box.edges:
        yield f"{indent}{_edge(edge, box.items[edge.source], box.items[edge.target])}"


def _item(item: Item, indent: str) -> Iterator[str]:
    if item.box is not None:
        yield from _box(item.box, item.key, indent)
        return
    style = _STYLES.get(item.node.op)
    label = _quoted("\n".join(item.lines))
    yield f"{indent}{item.key} [label={label}{', ' + style if style else ''}];"


def _edge(edge: Edge, source: Item, target: Item) -> str:
    """An edge to or from a loop ends at the border of its cluster."""
    options = ["style=dashed"] if edge.kind == "data" else []
    if edge.label:
        options.append(f"label={_quoted(edge.label)}")
    if source.box is not None:
        options.append(f"ltail={_quoted('cluster_' + source.key)}")
    if target.box is not None:
        options.append(f"lhead={_quoted('cluster_' + target.key)}")
    shown = f" [{', '.join(options)}]" if options else ""
    return f"{_anchor(source, last=True)} -> {_anchor(target, last=False)}{shown};"


def _anchor(item: Item, last: bool) -> str:
    while item.box is not None:
        inner = list(item.box.items.values())
        item = inner[-1 if last else 0]
    return item.key


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
