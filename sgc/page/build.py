"""The pages of `sgc inspect` and `sgc explain`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc.page.costs import CostLines, cost_rows, finder
from sgc.page.document import document
from sgc.page.drawing import place, shown_boxes, with_lines
from sgc.page.facts import known_facts
from sgc.page.nodes import node_data, source_lines
from sgc.page.timeline import Timeline
from sgc_ir.drawing.model import signature
from sgc_ir.graph import Program

MAX_FAILURES = 20  # rows that a page names; the others are counted
Files = Mapping[str, Sequence[str]]  # source lines by file, as the graph names it
Figure = Mapping[str, str]  # label, planned, actual, note; all but the label may be missing


def inspect_page(program: Program, sources: Files) -> str:
    """The graph, and what each node is. See `explain_page` for `sources`."""
    boxes, shown = shown_boxes(program)
    nodes = node_data(shown, known_facts(program, shown))
    figures = [
        _figure("nodes", sum(1 for _ in program.walk())),
        _figure("calls of the model", sum(node["op"] in ("Gen", "Select") for node in nodes)),
        _figure("programs", len(program.graphs)),
    ]
    data: dict[str, Any] = {
        "kind": "inspect",
        "figures": figures,
        "graph": place(boxes),
        "nodes": nodes,
        "sources": source_lines(sources, shown),
    }
    return _page(program, data)


def explain_page(
    program: Program,
    result: Mapping[str, Any],
    figures: Sequence[Figure],
    sources: Files,
    timeline: Timeline | None = None,
) -> str:
    """The graph with costs.

    Args:
        result: of `sgc explain`.
        figures: of the whole run.
        sources: source lines of the program's files, where they are known to be its own.
        timeline: of a run.
    """
    boxes, shown = shown_boxes(program)
    nodes = finder(shown)
    rows = cost_rows(result, nodes)
    lines = CostLines(rows, shown)
    data: dict[str, Any] = {
        "kind": "explain",
        "unit": result["unit"],
        "rows": result["rows"],
        "figures": list(figures),
        "failures": list(result["failures"].items())[:MAX_FAILURES],
        "moreFailures": max(0, len(result["failures"]) - MAX_FAILURES),
        "graph": place([with_lines(box, lines) for box in boxes]),
        "nodes": node_data(shown, known_facts(program, shown)),
        "sources": source_lines(sources, shown),
        "costs": rows,
        "models": list(result["money"]),
    }
    if timeline is not None:
        data["timeline"] = timeline.data(nodes)
    return _page(program, data)


def _page(program: Program, data: dict[str, Any]) -> str:
    data |= {"program": program.main, "signature": signature(program.graph)}
    return document(f"{program.main} - sgc {data['kind']}", data)


def _figure(label: str, number: int) -> Figure:
    return {"label": label, "planned": f"{number:,}"}
