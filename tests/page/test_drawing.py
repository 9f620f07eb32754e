"""What a page draws of random graphs and of the gallery: numbers agree, lines join their boxes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.gallery import NAMES, load_program
from support.random_control import random_program

from sgc.cli.graphs import load_graph
from sgc.page.drawing import place, shown_boxes
from sgc.page.facts import known_facts
from sgc.page.nodes import node_data
from sgc_ir.graph import Program
from sgc_ir.ops import Op

CALLS = (Op.GEN, Op.SELECT, Op.CALL, Op.SUB_PROGRAM, Op.BRANCH, Op.FORK, Op.JOIN)

COUNTED = """
import sgc


@sgc.function
def counted(s, q: str):
    s += q + sgc.select("kind", ["yes", "no"])
    if s["kind"] == "yes":
        s += "why?" + sgc.gen("why", max_tokens=9)
    s += sgc.gen("end", max_tokens=4)
    for _ in s.loop(max=3):
        s += sgc.gen("more", max_tokens=4)
        if s["more"] == "stop":
            break
"""


def check(graphs: Program) -> None:
    boxes, shown = shown_boxes(graphs)
    drawn = place(boxes)
    nodes = node_data(shown, known_facts(graphs, shown))
    assert len(drawn["items"]) == len(nodes)
    for item, node in zip(drawn["items"], nodes):
        assert " ".join(item["lines"]) == node["label"] or not item["lines"]
        assert node["line"].startswith(f"%{node['id']} = {node['op']}")
        inside(item["at"], drawn)
    wanted = [node for node in graphs.walk() if node.op in CALLS]
    assert sum(node["op"] in {op.value for op in CALLS} for node in nodes) == len(wanted)
    for kind, _, source, target, *points in drawn["paths"]:
        assert kind in ("order", "data")
        corners = list(zip(points[::2], points[1::2]))
        for (x, y), (u, v) in pairwise(corners):
            assert abs(x - u) < 0.15 or abs(y - v) < 0.15  # right-angled, but for rounding
        touches(drawn["items"], source, corners[0], bottom=True)
        touches(drawn["items"], target, corners[-1], bottom=False)


def inside(at: list[float], drawn: dict[str, Any]) -> None:
    x, y, width, height = at
    assert 0 <= x <= x + width <= drawn["width"]
    assert 0 <= y <= y + height <= drawn["height"]


def touches(
    items: list[dict[str, Any]], number: int, point: tuple[float, float], bottom: bool
) -> None:
    """The line ends on the lower or upper edge of the item; roles (-1) are frames."""
    if number < 0:
        return
    x, y, width, height = items[number]["at"]
    assert x - 0.2 <= point[0] <= x + width + 0.2
    assert point[1] == pytest.approx(y + height if bottom else y, abs=0.2)


@pytest.mark.parametrize("name", NAMES)
def test_programs_of_the_gallery(name: str) -> None:
    check(load_program(name).compile().graph)


def test_numbers_of_calls_are_no_part_of_the_picture(tmp_path: Path) -> None:
    """Behind a branch the run decides which call is the how many-th."""
    path = tmp_path / "counted.py"
    path.write_text(COUNTED)
    graphs = load_graph(f"{path}:counted")
    check(graphs)
    (box,), shown = shown_boxes(graphs)
    labels = [" ".join(found.item.lines) for found in shown]
    assert not [label for label in labels if "%" in label or "+" in label]
    branch = next(found.item.node.id for found in shown if found.item.node.op is Op.BRANCH)
    targets = {edge.target for edge in box.edges if edge.source == branch}
    assert [box.items[at].lines[0] for at in sorted(targets)] == [
        "why?",
        "return None",
    ]  # which gives `why` if there is one


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
@example(297)  # a body goes on with a branch that it was given
def test_random_graphs(seed: int) -> None:
    check(random_program(seed))
