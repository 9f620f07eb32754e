"""Automata as a table, as a picture, and as data for other tools."""

from __future__ import annotations

import json
from collections.abc import Callable

from sgc_ir.automata.fsm_svg import svg
from sgc_ir.automata.fsm_view import FsmView
from sgc_ir.drawing.mermaid import escaped
from sgc_ir.errors import ConstraintError

MOST_DRAWN = 1000  # states of a picture


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


def mermaid(view: FsmView) -> str:
    """A flowchart; a double circle accepts, a thick arrow is forced text."""
    lines = ["flowchart LR"]
    for state, ends in enumerate(view.accepting):
        left, right = ("(((", ")))") if ends else ("((", "))")
        lines.append(f'  s{state}{left}"{state}"{right}')
    for edge in view.edges:
        arrow = "==>" if edge.forced else "-->"
        lines.append(f'  s{edge.source} {arrow}|"{escaped(edge.label)}"| s{edge.target}')
    return "\n".join(lines) + "\n"


def json_form(view: FsmView) -> str:
    """States and edges as indented JSON in ASCII: an edge has `text`, or in `chars` the first and
    last code point of each range that its one character is out of."""
    edges = [
        {"source": edge.source, "target": edge.target, "forced": edge.forced}
        | ({"chars": [list(pair) for pair in edge.chars]} if edge.chars else {"text": edge.text})
        for edge in view.edges
    ]
    states = [{"state": i, "accepting": ends} for i, ends in enumerate(view.accepting)]
    data = {"start": 0, "byte_states": view.byte_states, "states": states, "edges": edges}
    return json.dumps(data, indent=2) + "\n"


_RENDERERS: dict[str, Callable[[FsmView], str]] = {
    "text": table,
    "mermaid": mermaid,
    "dot": dot,
    "svg": svg,
    "json": json_form,
}


def render_fsm(view: FsmView, format: str = "text") -> str:
    """`view` in a format of `sgc_ir.render`.

    Raises:
        ConstraintError: a picture would have more than `MOST_DRAWN` states.
    """
    if format not in ("text", "json") and view.num_states > MOST_DRAWN:
        raise ConstraintError(
            f"{view.num_states} states, more than {MOST_DRAWN}, are too many for a picture; "
            "use the format text or json"
        )
    return _RENDERERS[format](view)
