"""Pictures as SVG, drawn without any other program."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from sgc_ir.drawing.layout import LINE, PAD, TITLE, Layout, Place, RoleFrame, lay_out
from sgc_ir.drawing.model import picture
from sgc_ir.drawing.routing import Path
from sgc_ir.graph import Program
from sgc_ir.ops import Op

_SPACE = 20.0  # between boxes and around them
_LABEL = 24.0  # from the beginning of an edge's label to its arrow
_STYLE = """
    text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f; }
    .detail { fill: #57606a; }
    .title { font-weight: 600; }
    .role { font-size: 10px; fill: #7a6f52; }
    .graph { fill: #ffffff; stroke: #8c959f; }
    .body { fill: #fbfbfc; stroke: #8c959f; stroke-dasharray: 5 3; }
    .frame { fill: #f8f5ec; stroke: #ddd5bd; }
    .node { fill: #ffffff; stroke: #b6bec7; }
    .branch { fill: #fbf1dc; stroke: #c2a15a; }
    .call { fill: #e6f0fa; stroke: #6b93ba; }
    .fork { fill: #eef1ee; stroke: #8aa08a; }
    .plain { fill: #f3f4f6; stroke: #b6bec7; }
    .order { fill: none; stroke: #57606a; marker-end: url(#head); }
    .data { fill: none; stroke: #7d8fa3; stroke-dasharray: 4 3; marker-end: url(#head-data); }
""".strip("\n")
_CLASSES = {
    Op.GEN: "call",
    Op.SELECT: "call",
    Op.CALL: "call",
    Op.SUB_PROGRAM: "call",
    Op.BRANCH: "branch",
    Op.FORK: "fork",
    Op.JOIN: "fork",
    Op.FIRST: "fork",
    Op.GET_FORK_ITEM: "fork",
    Op.RETURN: "plain",
}


def svg(program: Program) -> str:
    """A picture of the program as one SVG document."""
    layouts = [lay_out(box) for box in picture(program)]
    width = max(layout.width for layout in layouts) + 2 * _SPACE
    height = sum(layout.height + _SPACE for layout in layouts) + _SPACE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"  <style>\n{_STYLE}\n  </style>",
        "  <defs>",
        _marker("head", "#57606a"),
        _marker("head-data", "#7d8fa3"),
        "  </defs>",
        '  <rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    y = _SPACE
    for layout in layouts:
        lines.extend(_box(layout, _SPACE, y, "graph", "  "))
        y += layout.height + _SPACE
    return "\n".join([*lines, "</svg>"]) + "\n"


def _marker(name: str, colour: str) -> str:
    return (
        f'    <marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="{colour}"/></marker>'
    )


def _box(layout: Layout, x: float, y: float, kind: str, indent: str) -> Iterator[str]:
    yield f'{indent}<g transform="translate({x:.1f} {y:.1f})">'
    yield _rect(0, 0, layout.width, layout.height, kind, indent + "  ", 6)
    yield _text(layout.box.title, 12, TITLE - 4, "title", indent + "  ")
    for frame in layout.frames:
        yield from _frame(frame, indent + "  ")
    for path in layout.paths:
        yield _line(path, indent + "  ")
    for place in layout.places.values():
        yield from _place(place, indent + "  ")
    yield f"{indent}</g>"


def _frame(frame: RoleFrame, indent: str) -> Iterator[str]:
    yield _rect(frame.x, frame.y, frame.width, frame.height, "frame", indent, 4)
    yield _text(frame.role, frame.x + 5, frame.y + 11, "role", indent)


def _place(place: Place, indent: str) -> Iterator[str]:
    item = place.item
    if item.node.op in (Op.ROLE_BEGIN, Op.ROLE_END):
        return  # the frame shows them
    if place.inner is not None:
        yield from _box(place.inner, place.x, place.y, "body", indent)
        return
    kind = _CLASSES.get(item.node.op, "node")
    yield f"{indent}<g><title>{_escaped(item.note)}</title>"
    yield _rect(place.x, place.y, place.width, place.height, kind, indent + "  ", 4)
    for index, line in enumerate(item.lines):
        detail = "detail" if kind == "call" and index else ""
        baseline = place.y + PAD + 9 + index * LINE
        yield _text(line, place.x + PAD, baseline, detail, indent + "  ")
    yield f"{indent}</g>"


def _line(path: Path, indent: str) -> str:
    points = " L".join(f"{x:.1f} {y:.1f}" for x, y in path.points)
    line = f'{indent}<path class="{path.edge.kind}" d="M{points}"/>'
    if not path.edge.label:
        return line
    x, y = path.points[-1]
    return line + "\n" + _text(path.edge.label, x - _LABEL, y - 6, "role", indent)


def _rect(
    x: float, y: float, width: float, height: float, kind: str, indent: str, radius: int
) -> str:
    return (
        f'{indent}<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}" rx="{radius}"/>'
    )


def _text(text: str, x: float, y: float, kind: str, indent: str) -> str:
    shown = f' class="{kind}"' if kind else ""
    return (
        f'{indent}<text{shown} x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{_escaped(text)}</text>'
    )


def _escaped(text: str) -> str:
    return escape(text, quote=True)
