"""A program's picture as plain data: rectangles, lines and labels with absolute places.

Places are those of `sgc_ir.drawing.layout`; the page draws them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sgc_ir.drawing.layout import LINE, PAD, TITLE, Layout, Place, lay_out
from sgc_ir.drawing.model import Box, Item, picture
from sgc_ir.graph import Graph, Program
from sgc_ir.ops import Op

_SPACE = 20.0  # between boxes and around them
_ROLES = (Op.ROLE_BEGIN, Op.ROLE_END)
KINDS = {  # op -> class of its boxes
    "Gen": "call",
    "Select": "call",
    "SubProgram": "call",
    "Call": "tool",
    "Branch": "branch",
    "Fork": "fork",
    "GetForkItem": "fork",
    "Join": "fork",
    "First": "fork",
    "Loop": "loop",
    "Return": "plain",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """An item of the picture.

    Attributes:
        graph: name of the program in which it stands, also for what is in a loop's body.
        file: of that program.
        owner: the graph or body that holds its node.
    """

    graph: str
    file: str
    owner: Graph
    item: Item


def shown_boxes(program: Program) -> tuple[list[Box], list[Shown]]:
    """The boxes of a program, and all items in the order in which `place` numbers them."""
    names = sorted(program.graphs, key=lambda name: (name != program.main, name))
    boxes = picture(program)
    items: list[Shown] = []
    for name, box in zip(names, boxes, strict=True):
        graph = program.graphs[name]
        items += [Shown(name, graph.source.file, *found) for found in _items(box, graph)]
    return boxes, items


def _items(box: Box, owner: Graph) -> Iterator[tuple[Graph, Item]]:
    for item in box.items.values():
        if item.node.op in _ROLES:
            continue  # frames show them
        yield owner, item
        if item.box is not None and item.node.body is not None:
            yield from _items(item.box, item.node.body)


def with_lines(box: Box, more: Callable[[Item], tuple[str, ...]]) -> Box:
    """The box with more lines in its labels."""
    items = {}
    for node_id, item in box.items.items():
        inner = None if item.box is None else with_lines(item.box, more)
        items[node_id] = replace(item, lines=item.lines + more(item), box=inner)
    return replace(box, items=items)


@dataclass(slots=True)
class _Drawing:
    areas: list[list[Any]] = field(default_factory=list)
    paths: list[list[Any]] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)  # key of an item -> its number


def place(boxes: list[Box]) -> dict[str, Any]:
    """The boxes below each other, in pixels.

    Items are numbered as `shown_boxes` lists them. Areas are `[kind, x, y, width, height, title]`,
    each behind what lies on it; kinds are `box` for a graph, `inner` for a loop's body, `frame`
    for a chat turn. Lines are `[kind, label, source, target, x, y, x, y ..]`.
    """
    drawing, y, width = _Drawing(), _SPACE, 0.0
    for box in boxes:
        layout = lay_out(box)
        _box(drawing, layout, _SPACE, y, "box")
        y += layout.height + _SPACE
        width = max(width, layout.width)
    return {
        "width": round(width + 2 * _SPACE),
        "height": round(y),
        "line": LINE,
        "pad": PAD,
        "title": TITLE,
        "areas": drawing.areas,
        "paths": drawing.paths,
        "items": drawing.items,
    }


def _box(drawing: _Drawing, layout: Layout, x: float, y: float, kind: str) -> None:
    drawing.areas.append([kind, *_numbers(x, y, layout.width, layout.height), layout.box.title])
    for frame in layout.frames:
        rectangle = _numbers(x + frame.x, y + frame.y, frame.width, frame.height)
        drawing.areas.append(["frame", *rectangle, frame.role])
    for found in layout.places.values():
        if found.item.node.op not in _ROLES:
            _item(drawing, found, x, y)
    for path in layout.paths:
        ends = [
            drawing.numbers.get(layout.box.items[at].key, -1)
            for at in (path.edge.source, path.edge.target)
        ]
        points = [round(v, 1) for px, py in path.points for v in (x + px, y + py)]
        drawing.paths.append([path.edge.kind, path.edge.label, *ends, *points])


def _item(drawing: _Drawing, found: Place, x: float, y: float) -> None:
    item, number = found.item, len(drawing.items)
    drawing.numbers[item.key] = number
    rectangle = _numbers(x + found.x, y + found.y, found.width, found.height)
    kind = KINDS.get(item.node.op.value, "text")
    lines = [] if found.inner is not None else list(item.lines)
    drawing.items.append({"at": rectangle, "kind": kind, "lines": lines})
    if found.inner is not None:
        _box(drawing, found.inner, x + found.x, y + found.y, "inner")


def _numbers(*values: float) -> list[float]:
    return [round(value, 1) for value in values]
