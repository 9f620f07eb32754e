"""Automata as a table, in graphviz' language and as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from sgc_ir.automata.fsm_view import FsmEdge, FsmView
from sgc_ir.drawing.words import cells, shorten

_MAX_LABEL = 48  # cells of a label in a picture; the table has all of it
_CELL = 6.7  # width of a character at font size 11, in pixels
_RADIUS = 15.0
_GAP = 46.0  # between a column's labels and the next column
_ROW = 74.0
_MARGIN = 40.0
_STYLE = """
    text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f; }
    .state { fill: #ffffff; stroke: #57606a; }
    .accepting { fill: none; stroke: #57606a; }
    .edge { fill: none; stroke: #7d8fa3; marker-end: url(#head); }
    .forced { fill: none; stroke: #2f6fab; stroke-width: 2; marker-end: url(#head); }
    .name, .label { text-anchor: middle; }
    .label { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
""".strip("\n")


def table(view: FsmView) -> str:
    """One line an edge: state, whether the text may end there, label, next state.

    `=>` marks text that is forced, `->` a choice.
    """
    width = max(len(str(view.num_states)), len("state"))
    lines = [f"{'state':<{width}}  ends  edge"]
    for state, accepting in enumerate(view.accepting):
        ways = [edge for edge in view.edges if edge.source == state]
        shown = [f"{e.label} {'=>' if e.forced else '->'} {e.target}" for e in ways] or [""]
        for i, text in enumerate(shown):
            name, ends = (str(state), "yes" if accepting else "") if i == 0 else ("", "")
            lines.append(f"{name:<{width}}  {ends:<4}  {text}".rstrip())
    return "\n".join(lines) + "\n"


def dot(view: FsmView) -> str:
    """A digraph; a double circle accepts, a thick edge is forced text."""
    lines = [
        "digraph fsm {",
        "  rankdir=LR;",
        '  node [shape=circle, fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=10];',
        '  begin [shape=none, label=""];',
    ]
    lines += [f"  {s} [shape=doublecircle];" for s, ends in enumerate(view.accepting) if ends]
    lines.append("  begin -> 0;")
    for edge in view.edges:
        style = ", penwidth=2" if edge.forced else ""
        lines.append(f"  {edge.source} -> {edge.target} [label={_quoted(edge.label)}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True, slots=True)
class _Plan:
    places: tuple[tuple[float, float], ...]  # middle of each state
    width: float
    height: float


def _plan(view: FsmView, labels: dict[tuple[int, int], str]) -> _Plan:
    """Columns by distance from the start; as wide as the labels between them need."""
    depth = {0: 0}
    for edge in view.edges:  # breadth-first order of sources
        depth.setdefault(edge.target, depth[edge.source] + 1)
    columns: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    for state in range(view.num_states):
        columns[depth[state]].append(state)
    rows = max(map(len, columns))
    height = 2 * _MARGIN + rows * _ROW
    x, places = _MARGIN + _RADIUS, {}
    for states in columns:
        for i, state in enumerate(states):
            places[state] = (x, height * (i + 0.5) / len(states))
        widest = max((cells(labels[pair]) for pair in labels if pair[0] in states), default=0)
        x += 2 * _RADIUS + _GAP + widest * _CELL
    return _Plan(tuple(places[s] for s in range(view.num_states)), x, height)


def svg(view: FsmView) -> str:
    """A picture as one SVG document, drawn without any other program."""
    labels = _labels(view)
    plan = _plan(view, {pair: text for pair, (text, _) in labels.items()})
    size = f'width="{plan.width:.0f}" height="{plan.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {plan.width:.0f} {plan.height:.0f}" role="img">',
        f"  <style>\n{_STYLE}\n  </style>",
        '  <defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto" markerUnits="userSpaceOnUse">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>',
        '  <rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for (source, target), (text, forced) in labels.items():
        lines += _line(plan.places[source], plan.places[target], text, forced)
    for state, (x, y) in enumerate(plan.places):
        lines += _circle(state, x, y, view.accepting[state])
    return "\n".join([*lines, "</svg>"]) + "\n"


def _labels(view: FsmView) -> dict[tuple[int, int], tuple[str, bool]]:
    """One label for all edges between two states, and whether it is forced text."""
    groups: dict[tuple[int, int], list[FsmEdge]] = {}
    for edge in view.edges:
        groups.setdefault((edge.source, edge.target), []).append(edge)
    return {
        pair: (shorten(" | ".join(edge.label for edge in edges), _MAX_LABEL), edges[0].forced)
        for pair, edges in groups.items()
    }


def _line(
    begin: tuple[float, float], end: tuple[float, float], text: str, forced: bool
) -> Iterator[str]:
    (x1, y1), (x2, y2) = begin, end
    if begin == end:
        path = f"M{x1 - 8:.1f},{y1 - 13:.1f} c-22,-36 38,-36 {8 + 8:.1f},0"
        middle = (x1, y1 - 36)
    elif x2 > x1:
        bend = (x2 - x1) / 3
        x1, x2 = x1 + _RADIUS, x2 - _RADIUS
        path = f"M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} "
        path += f"{x2:.1f},{y2:.1f}"
        middle = ((x1 + x2) / 2, (y1 + y2) / 2 - 4)
    else:  # back, or within a column: bent below
        low = max(y1, y2) + _ROW * 0.5 + abs(x1 - x2) * 0.1
        path = f"M{x1:.1f},{y1 + _RADIUS:.1f} C{x1:.1f},{low:.1f} {x2:.1f},{low:.1f} "
        path += f"{x2:.1f},{y2 + _RADIUS:.1f}"
        middle = ((x1 + x2) / 2, (max(y1, y2) + _RADIUS + 3 * low) / 4)
    kind = "forced" if forced else "edge"
    yield f'  <path class="{kind}" d="{path}"/>'
    yield (
        f'  <text class="label" x="{middle[0]:.1f}" y="{middle[1]:.1f}">'
        f"{escape(text, quote=False)}</text>"
    )


def _circle(state: int, x: float, y: float, accepting: bool) -> Iterator[str]:
    yield f'  <circle class="state" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.1f}"/>'
    if accepting:
        yield f'  <circle class="accepting" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS - 3:.1f}"/>'
    yield f'  <text class="name" x="{x:.1f}" y="{y + 4:.1f}">{state}</text>'
