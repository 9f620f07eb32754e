"""Edges of a box as right-angled lines that run between rows and columns, never through items.

A line leaves its source at the bottom, runs in the channel below the source's row, then in a
gutter beside the target's column, then in the channel above the target's row, and enters the
target at the top. Lines that would lie on each other get tracks of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sgc_ir.drawing.model import Edge


class Cell(NamedTuple):
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Path:
    """Corner points of an edge, in pixels."""

    edge: Edge
    points: tuple[tuple[float, float], ...]


@dataclass(slots=True)
class Route:
    """An edge while its line is worked out; channel r lies below row r."""

    edge: Edge
    source: Cell
    target: Cell
    straight: bool
    gutter: int | None = None  # left of the column of that number
    gutter_track: int = 0
    gutter_x: float = 0.0
    source_x: float = 0.0
    target_x: float = 0.0
    tracks: dict[int, int] = field(default_factory=dict)  # channel -> track
    channel_y: dict[int, float] = field(default_factory=dict)

    def spans(self) -> Iterable[tuple[int, float, float]]:
        """Channel, left end, right end of each horizontal piece."""
        if self.straight:
            return
        if self.gutter is None:
            yield self.source.row, *_sorted(self.source_x, self.target_x)
            return
        yield self.source.row, *_sorted(self.source_x, self.gutter_x)
        yield self.target.row - 1, *_sorted(self.gutter_x, self.target_x)

    def settle(self, channel: int, y: float, spacing: float) -> None:
        """Fix the height of the pieces in `channel`, whose first track lies at `y`."""
        if channel in self.tracks:
            self.channel_y[channel] = y + self.tracks[channel] * spacing

    def path(self, bottom: float, top: float) -> Path:
        """The line from the source's lower edge to the target's upper edge."""
        points = [(self.source_x, bottom)]
        if not self.straight:
            y = self.channel_y[self.source.row]
            points.append((self.source_x, y))
            if self.gutter is not None:
                last = self.channel_y[self.target.row - 1]
                points += [(self.gutter_x, y), (self.gutter_x, last)]
                y = last
            points.append((self.target_x, y))
        points.append((self.target_x, top))
        return Path(self.edge, tuple(points))


def _sorted(a: float, b: float) -> tuple[float, float]:
    return (a, b) if a <= b else (b, a)


def plan_routes(edges: Sequence[Edge], cells: Mapping[int, Cell], straight: int) -> list[Route]:
    """A route for each edge, with gutter and gutter track where it passes over rows.

    The first `straight` edges join items of one column with nothing between them.
    """
    routes = []
    for index, edge in enumerate(edges):
        source, target = cells[edge.source], cells[edge.target]
        route = Route(edge, source, target, index < straight)
        if not route.straight and target.row > source.row + 1:
            route.gutter = target.column + (0 if source.column < target.column else 1)
        routes.append(route)
    gutters: dict[int, list[Route]] = {}
    for route in routes:
        if route.gutter is not None:
            gutters.setdefault(route.gutter, []).append(route)
    for members in gutters.values():
        spans = [(float(r.source.row), float(r.target.row - 1)) for r in members]
        for route, track in zip(members, colour(spans, 0.0), strict=True):
            route.gutter_track = track
    return routes


def colour_channels(routes: Sequence[Route]) -> dict[int, int]:
    """Give the horizontal pieces their tracks; returns how many each channel needs."""
    crowds = Counter(route.edge.target for route in routes if route.edge.kind == "data")
    spans: dict[int, dict[tuple[str, int, int], tuple[float, float]]] = {}
    pieces: list[tuple[Route, int, tuple[str, int, int]]] = []
    for route in routes:
        for channel, left, right in route.spans():
            line = _line(route.edge, crowds)
            known = spans.setdefault(channel, {}).get(line, (left, right))
            spans[channel][line] = min(left, known[0]), max(right, known[1])
            pieces.append((route, channel, line))
    counts: dict[int, int] = {}
    tracks: dict[int, dict[tuple[str, int, int], int]] = {}
    for channel, members in spans.items():
        chosen = colour(list(members.values()), 4.0)
        tracks[channel] = dict(zip(members, chosen, strict=True))
        counts[channel] = max(chosen) + 1
    for route, channel, line in pieces:
        route.tracks[channel] = tracks[channel][line]
    return counts


def _line(edge: Edge, crowds: Mapping[int, int]) -> tuple[str, int, int]:
    """Edges with the same answer share a track: those of one fork, and many into one join."""
    if edge.kind == "order":
        return "from", edge.source, 0
    return ("into", edge.target, 0) if crowds[edge.target] > 4 else ("", edge.source, edge.target)


def colour(spans: list[tuple[float, float]], distance: float) -> list[int]:
    """A track for each span so that spans of one track keep `distance`; few tracks, first fit."""
    ends: list[float] = []
    tracks = [0] * len(spans)
    for index in sorted(range(len(spans)), key=lambda i: spans[i]):
        left, right = spans[index]
        track = next((t for t, end in enumerate(ends) if end + distance < left), len(ends))
        if track == len(ends):
            ends.append(right)
        ends[track] = right
        tracks[index] = track
    return tracks
