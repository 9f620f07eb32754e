"""Automata as SVG, drawn without any other program."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from sgc_ir.automata.fsm_layout import Layout, Pair, Slot, layout
from sgc_ir.automata.fsm_view import FsmEdge, FsmView
from sgc_ir.drawing.words import cells, shorten

_MAX_LABEL = 40  # cells of a line; the table has all of it
_MAX_LINES = 4
_CELL = 6.7  # width of a character at font size 11, in pixels
_LINE = 13.0
_RADIUS = 15.0
_GAP = 46.0  # between a column's labels and the next column
_ROW = 72.0
_LANE = 22.0  # height of an edge back
_MARGIN = 30.0
_STYLE = """
    text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f; }
    .state { fill: #ffffff; stroke: #57606a; }
    .accepting { fill: none; stroke: #57606a; }
    .edge { fill: none; stroke: #7d8fa3; marker-end: url(#head); }
    .forced { fill: none; stroke: #2f6fab; stroke-width: 2; marker-end: url(#head); }
    .name, .label { text-anchor: middle; }
    .label { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
""".strip("\n")
_HEAD = (
    '  <defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto" markerUnits="userSpaceOnUse">'
    '<path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>'
)
_Point = tuple[float, float]


def svg(view: FsmView) -> str:
    """A picture as one SVG document; a double circle accepts, a thick edge is forced text."""
    return "\n".join(_Drawing(view).lines()) + "\n"


class _Drawing:
    def __init__(self, view: FsmView) -> None:
        self._view = view
        self._labels, self._forced = _labels(view)
        plan = layout(
            view.num_states, {pair: "\n".join(text) for pair, text in self._labels.items()}
        )
        self._plan = plan
        tall = max(map(len, self._labels.values()), default=1)
        self._row = max(_ROW, _LINE * tall + 2 * _RADIUS)
        self._x = _column_places(plan, self._labels)
        loops = any(source == target for source, target in self._labels)
        self._top = _MARGIN + (_LINE * tall + 20 if loops else 0)
        self._rows_height = max(plan.heights) * self._row
        self.width = self._x[-1] + 2 * _RADIUS + _MARGIN
        self.height = self._top + self._rows_height + len(plan.back) * _LANE + _MARGIN

    def lines(self) -> Iterator[str]:
        size = f"{self.width:.0f} {self.height:.0f}"
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:.0f}" '
            f'height="{self.height:.0f}" viewBox="0 0 {size}" role="img">'
        )
        yield f"  <style>\n{_STYLE}\n  </style>"
        yield _HEAD
        yield '  <rect width="100%" height="100%" fill="#ffffff"/>'
        texts: list[str] = []
        for pair, label in self._labels.items():
            path, middle = self._edge(pair)
            kind = "forced" if self._forced[pair] else "edge"
            yield f'  <path class="{kind}" d="{path}"/>'
            texts += _text(label, *middle)
        yield from dict.fromkeys(texts)  # edges that share their way share their label
        for state, slot in enumerate(self._plan.states):
            yield from _circle(state, self._place(slot), self._view.accepting[state])
        yield "</svg>"

    def _place(self, slot: Slot) -> _Point:
        height = self._rows_height / self._plan.heights[slot.column]
        return self._x[slot.column], self._top + height * (slot.row + 0.5)

    def _edge(self, pair: Pair) -> tuple[str, _Point]:
        """The path, and where the last line of its label is written."""
        source, target = (self._place(self._plan.states[state]) for state in pair)
        if pair[0] == pair[1]:
            x, y = source
            return f"M{x - 8:.1f},{y - 13:.1f} c-20,-36 36,-36 16,0", (x, y - 44)
        if pair in self._plan.ways:
            return self._forward([self._place(slot) for slot in self._plan.ways[pair]])
        return self._back(source, target, self._plan.back.index(pair))

    def _forward(self, points: list[_Point]) -> tuple[str, _Point]:
        (x, y), (end, y2) = points[0], points[-1]
        points = [(x + _RADIUS, y), *points[1:-1], (end - _RADIUS, y2)]
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            bend = (x2 - x1) / 2
            path += f" C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
        (x1, y1), (x2, y2) = points[-2:]  # edges that share their way do so at its end
        return path, ((x1 + x2) / 2, (y1 + y2) / 2 - 4)

    def _back(self, source: _Point, target: _Point, lane: int) -> tuple[str, _Point]:
        (x1, y1), (x2, y2) = source, target
        low = self._top + self._rows_height + (lane + 0.5) * _LANE
        x1, y1, y2, x2 = x1 + 6, y1 + _RADIUS - 2, y2 + _RADIUS - 2, x2 - 6
        path = (
            f"M{x1:.1f},{y1:.1f} C{x1 + 20:.1f},{low:.1f} {x1:.1f},{low:.1f} "
            f"{x1 - 24:.1f},{low:.1f} L{x2 + 24:.1f},{low:.1f} "
            f"C{x2:.1f},{low:.1f} {x2 - 20:.1f},{low:.1f} {x2:.1f},{y2:.1f}"
        )
        return path, ((x1 + x2) / 2, low + 4)


def _labels(view: FsmView) -> tuple[dict[Pair, list[str]], dict[Pair, bool]]:
    """The lines of one label for all edges between two states, and whether it is forced text."""
    groups: dict[Pair, list[FsmEdge]] = {}
    for edge in view.edges:
        groups.setdefault((edge.source, edge.target), []).append(edge)
    labels = {}
    for pair, edges in groups.items():
        lines = [shorten(edge.label, _MAX_LABEL) for edge in edges]
        if len(lines) > _MAX_LINES:
            lines[_MAX_LINES - 1 :] = [f"and {len(lines) - _MAX_LINES + 1} more"]
        labels[pair] = lines
    return labels, {pair: edges[0].forced for pair, edges in groups.items()}


def _column_places(plan: Layout, labels: dict[Pair, list[str]]) -> list[float]:
    """x of each column: as far apart as the labels between them need."""
    widest = [0] * len(plan.heights)
    for pair, lines in labels.items():
        width = max(map(cells, lines))
        if pair in plan.ways:
            column = plan.ways[pair][-1].column - 1
        elif pair[0] == pair[1]:
            column, width = plan.states[pair[0]].column, width // 2
        else:
            column = plan.states[pair[1]].column
        widest[column] = max(widest[column], width)
    x = [_MARGIN + 2 * _RADIUS]
    for width in widest[:-1]:
        x.append(x[-1] + 2 * _RADIUS + _GAP + width * _CELL)
    return x


def _text(lines: list[str], x: float, y: float) -> Iterator[str]:
    for i, line in enumerate(reversed(lines)):
        shown = escape(line, quote=False)
        yield f'  <text class="label" x="{x:.1f}" y="{y - i * _LINE:.1f}">{shown}</text>'


def _circle(state: int, place: _Point, accepting: bool) -> Iterator[str]:
    x, y = place
    yield f'  <circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.1f}"/>'
    if accepting:
        yield f'  <circle class="accepting" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS - 3:.1f}"/>'
    yield f'  <text class="name" x="{x:.1f}" y="{y + 4:.1f}">{state}</text>'
