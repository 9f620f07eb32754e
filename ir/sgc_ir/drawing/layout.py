"""Where the items of a box stand: lanes of streams from left to right, rows from top to bottom.

An item stands below everything that it needs. Each lane has a column for its stream and one for
what runs beside it (loops, calls, sub-programs); no two items share a cell, so none overlap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sgc_ir.drawing.model import Box, Edge, Item
from sgc_ir.drawing.routing import Cell, Path, Route, colour_channels, plan_routes
from sgc_ir.drawing.words import cells
from sgc_ir.ops import Op

CELL = 7.3  # width of a character, in pixels at font size 12
LINE = 15.0  # height of a line
PAD = 8.0  # between a label and its border
FRAME = 7.0  # between an item and the frame of its role
MARGIN = 14.0  # between a box and what is in it
GAP = 16.0  # least distance of two rows
TRACK = 7.0  # distance of parallel edges
COLUMN_GAP = 26.0
TITLE = 22.0  # height of a box's title
_ROLES = (Op.ROLE_BEGIN, Op.ROLE_END)
_HEIGHTS = {Op.ROLE_BEGIN: 14.0, Op.ROLE_END: 4.0}
# Cheap nodes that may wait for their successor: the picture keeps them beside it.
_PULLED = (Op.ROLE_BEGIN, Op.CONSTANT_TEXT, Op.ARGUMENT, Op.VARIABLE, Op.EXPR, Op.IMAGE, Op.VIDEO)


@dataclass(slots=True)
class Place:
    """An item and its rectangle, in pixels from its box's upper left corner."""

    item: Item
    cell: Cell
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    inner: Layout | None = None

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class RoleFrame:
    """The area of a chat turn."""

    role: str
    x: float
    y: float
    width: float
    height: float


@dataclass(slots=True)
class Layout:
    """A box with everything placed."""

    box: Box
    width: float = 0.0
    height: float = 0.0
    places: dict[int, Place] = field(default_factory=dict)
    frames: list[RoleFrame] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)


def lay_out(box: Box) -> Layout:
    """Place the items of a box, the bodies inside it first."""
    layout = Layout(box)
    rows = _rows(box)
    columns = {column: at for at, column in enumerate(_columns(box))}
    for node_id, item in box.items.items():
        inner = lay_out(item.box) if item.box is not None else None
        width, height = (inner.width, inner.height) if inner is not None else _size(item)
        cell = Cell(rows[node_id], columns[_column(item)])
        layout.places[node_id] = Place(item, cell, width, height, inner=inner)
    cells_of = {node_id: place.cell for node_id, place in layout.places.items()}
    straight = _straight(box)
    routes = plan_routes([*straight, *_bent(box, straight)], cells_of, len(straight))
    _place_columns(layout, len(columns), routes)
    _place_rows(layout, routes)
    _draw_frames(layout)
    layout.paths = [_path(layout, route) for route in routes]
    layout.width = max(layout.width, cells(box.title) * CELL + 2 * MARGIN)
    return layout


def _size(item: Item) -> tuple[float, float]:
    width = max((cells(line) for line in item.lines), default=1) * CELL + 2 * PAD
    return width, _HEIGHTS.get(item.node.op, len(item.lines) * LINE + 2 * PAD - 4)


def _column(item: Item) -> tuple[int, bool]:
    return item.lane, not item.in_stream


def _columns(box: Box) -> list[tuple[int, bool]]:
    used = {_column(item) for item in box.items.values()}
    ordered = [(lane, beside) for lane in box.lanes for beside in (False, True)]
    return [column for column in ordered if column in used]


def _rows(box: Box) -> dict[int, int]:
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for edge in box.edges:
        before.setdefault(edge.target, []).append(edge.source)
        after.setdefault(edge.source, []).append(edge.target)
    rows: dict[int, int] = {}
    taken: set[tuple[tuple[int, bool], int]] = set()
    for node_id, item in box.items.items():
        row = max((rows[p] + 1 for p in before.get(node_id, [])), default=0)
        while (_column(item), row) in taken:
            row += 1
        taken.add((_column(item), row))
        rows[node_id] = row
    for node_id in reversed(list(box.items)):
        if box.items[node_id].node.op in _PULLED and after.get(node_id):
            rows[node_id] = max(rows[node_id], min(rows[s] for s in after[node_id]) - 1)
    numbers = {row: number for number, row in enumerate(sorted(set(rows.values())))}
    return {node_id: numbers[row] for node_id, row in rows.items()}


def _straight(box: Box) -> list[Edge]:
    """From each item to the next one of its stream; roles are frames and no stations."""
    edges: list[Edge] = []
    last: dict[int, int] = {}
    for node_id, item in box.items.items():
        if item.in_stream and item.node.op not in _ROLES:
            if item.lane in last:
                edges.append(Edge(last[item.lane], node_id, "order"))
            last[item.lane] = node_id
    return edges


def _bent(box: Box, straight: list[Edge]) -> list[Edge]:
    """The other edges, as far as no straight one joins the same two items."""
    joined = {(edge.source, edge.target) for edge in straight}
    return [
        edge
        for edge in box.edges
        if (edge.source, edge.target) not in joined
        and (
            edge.kind == "data"
            or box.items[edge.source].lane != box.items[edge.target].lane
            or not box.items[edge.target].in_stream
        )
    ]


def _place_columns(layout: Layout, count: int, routes: list[Route]) -> None:
    tracks = [0] * (count + 1)
    for route in routes:
        if route.gutter is not None:
            tracks[route.gutter] = max(tracks[route.gutter], route.gutter_track + 1)
    columns = _grouped(layout, lambda place: place.cell.column)
    x = MARGIN
    starts: list[float] = []  # of the gutters
    for column in range(count + 1):
        starts.append(x)
        x += tracks[column] * TRACK + (COLUMN_GAP if 0 < column < count else FRAME)
        if column == count:
            break
        members = columns[column]
        width = max(p.width for p in members)
        for place in members:
            place.x = x + (width - place.width) / 2
        x += width
    for route in routes:
        if route.gutter is not None:
            inset = FRAME + 3 if 0 < route.gutter else 0
            route.gutter_x = starts[route.gutter] + inset + route.gutter_track * TRACK
    layout.width = x + MARGIN


def _place_rows(layout: Layout, routes: list[Route]) -> None:
    for route in routes:
        source, target = layout.places[route.edge.source], layout.places[route.edge.target]
        shift = 0 if route.edge.kind == "order" else 12
        route.source_x = source.middle + min(shift, source.width / 4)
        route.target_x = target.middle - min(shift, target.width / 4)
    tracks = colour_channels(routes)
    crossing: dict[int, list[Route]] = {}
    for route in routes:
        for channel in route.tracks:
            crossing.setdefault(channel, []).append(route)
    y = TITLE + MARGIN
    for row, members in sorted(_grouped(layout, lambda place: place.cell.row).items()):
        height = max(p.height for p in members)
        for place in members:
            waits = place.item.node.op in _PULLED  # at the lower end, near what it waits for
            place.y = y + (height - place.height if waits else 0)
        y += height
        number = tracks.get(row, 0)
        for route in crossing.get(row, ()):
            route.settle(row, y + GAP / 2, TRACK)
        y += GAP + number * TRACK
    layout.height = y - GAP + MARGIN


def _grouped(layout: Layout, key: Callable[[Place], int]) -> dict[int, list[Place]]:
    groups: dict[int, list[Place]] = {}
    for place in layout.places.values():
        groups.setdefault(key(place), []).append(place)
    return groups


def _path(layout: Layout, route: Route) -> Path:
    source, target = layout.places[route.edge.source], layout.places[route.edge.target]
    return route.path(source.y + source.height, target.y)


def _draw_frames(layout: Layout) -> None:
    lanes = _grouped(layout, lambda place: place.item.lane)
    for lane in layout.box.lanes:
        begin: Place | None = None
        last: Place | None = None
        members = [place for place in lanes.get(lane, ()) if place.item.in_stream]
        left = min((p.x for p in members), default=0.0) - FRAME
        right = max((p.x + p.width for p in members), default=0.0) + FRAME
        for place in members:
            last = place
            if place.item.node.op is Op.ROLE_BEGIN:
                begin = place
            elif place.item.node.op is Op.ROLE_END and begin is not None:
                layout.frames.append(_frame(begin, place, left, right))
                begin = None
        if begin is not None and last is not None:
            layout.frames.append(_frame(begin, last, left, right))


def _frame(begin: Place, end: Place, left: float, right: float) -> RoleFrame:
    top = begin.y - 2
    role = str(begin.item.node.attrs["role"])
    return RoleFrame(role, left, top, right - left, end.y + end.height - top)
