"""Pictures: nothing overlaps, lines pass no item, every format is well formed whatever the text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from ir.exact import all_nodes
from ir.samples import Builder, essay_judge, static_judge
from ir.strategies import programs

from sgc_ir.drawing.layout import Layout, Place, lay_out
from sgc_ir.drawing.model import Box, picture
from sgc_ir.drawing.words import cells, shorten, wrap
from sgc_ir.graph import Param, Program
from sgc_ir.ops import Op
from sgc_ir.render import FORMATS, render
from sgc_ir.text import parse_program

SVG = "{http://www.w3.org/2000/svg}"
WIDEST_ADVANCE = 7.23  # of common monospaced fonts at 12 px
NASTY = "a\"b\\<c>&'`#;%%{x}|[y]\n\t\x00\x1b\ud800\ufffe end subgraph --> 漢字😀 é"
DRAWN = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def layouts(program: Program) -> Iterator[Layout]:
    stack = [lay_out(box) for box in picture(program)]
    while stack:
        layout = stack.pop()
        yield layout
        stack.extend(p.inner for p in layout.places.values() if p.inner is not None)


def boxes(program: Program) -> Iterator[Box]:
    stack = picture(program)
    while stack:
        box = stack.pop()
        yield box
        stack.extend(item.box for item in box.items.values() if item.box is not None)


def nasty() -> Program:
    b = Builder(NASTY)
    b.add(Op.CONSTANT_TEXT, text=NASTY)
    b.add(Op.GEN, name=NASTY, ordinal=0, stop=(NASTY,))
    b.add(Op.SELECT, name="x", ordinal=1, choices=(NASTY, "end"))
    b.add(Op.CALL, tool=NASTY, effect="pure", args=(NASTY,), kwargs={NASTY: 1}, ordinal=2)
    graph = b.graph(NASTY, Param("p", "", NASTY), value=NASTY)
    return Program(NASTY, {NASTY: graph}, tools={NASTY: "pure"}, notes={NASTY: NASTY})


def geometry_is_clean(layout: Layout) -> None:
    places = list(layout.places.values())
    for index, place in enumerate(places):
        assert place.x >= 0
        assert place.x + place.width <= layout.width
        assert place.y + place.height <= layout.height
        if place.inner is None and place.item.node.op is not Op.ROLE_END:
            needed = max(cells(line) for line in place.item.lines) * WIDEST_ADVANCE
            assert needed <= place.width
        for other in places[index + 1 :]:
            apart_x = place.x + place.width <= other.x or other.x + other.width <= place.x
            apart_y = place.y + place.height <= other.y or other.y + other.height <= place.y
            assert apart_x or apart_y, (place.item.note, other.item.note)
    for path in layout.paths:
        ends = (path.edge.source, path.edge.target)
        for a, b in zip(path.points, path.points[1:]):
            for node_id, place in layout.places.items():
                roles = (Op.ROLE_BEGIN, Op.ROLE_END)  # drawn as frames, lines pass them
                if node_id not in ends and place.item.node.op not in roles:
                    assert not crosses(a, b, place), (path, place.item.note)
    title = cells(layout.box.title) * WIDEST_ADVANCE
    assert title <= layout.width


def crosses(a: tuple[float, float], b: tuple[float, float], place: Place) -> bool:
    """Whether a horizontal or vertical segment runs through the inside of an item."""
    left, right = sorted((a[0], b[0]))
    top, bottom = sorted((a[1], b[1]))
    return (
        left < place.x + place.width - 0.01
        and right > place.x + 0.01
        and top < place.y + place.height - 0.01
        and bottom > place.y + 0.01
    )


@pytest.mark.parametrize("program", [essay_judge(), static_judge(), nasty()])
def test_geometry_of_samples(program: Program) -> None:
    for layout in layouts(program):
        geometry_is_clean(layout)


@DRAWN
@given(programs())
def test_geometry_and_formats_of_random_programs(program: Program) -> None:
    for layout in layouts(program):
        geometry_is_clean(layout)
    for name in FORMATS:
        render(program, name).encode("utf-8")
    ElementTree.fromstring(render(program, "svg"))
    json.loads(render(program, "json"))
    check_dot(render(program, "dot"))
    check_mermaid(render(program, "mermaid"))


@DRAWN
@given(programs())
def test_edges_lead_down_and_every_effect_is_shown(program: Program) -> None:
    shown = set()
    for box in boxes(program):
        for edge in box.edges:
            assert edge.source in box.items
            assert edge.target in box.items
            assert edge.source < edge.target
        shown |= {id(item.node) for item in box.items.values()}
    silent = (Op.ARGUMENT, Op.VARIABLE, Op.EXPR, Op.MERGE, Op.GET_FORK_ITEM, Op.RETURN, Op.LOOP)
    for node in all_nodes(program):
        if node.appends or node.op not in silent:
            assert id(node) in shown, node


def test_text_is_escaped_everywhere() -> None:
    program = nasty()
    for name in FORMATS:
        render(program, name).encode("utf-8")
    root = ElementTree.fromstring(render(program, "svg"))
    shown = "".join(text.text or "" for text in root.iter(f"{SVG}text"))
    assert "<c>&" in shown
    assert "\x00" not in shown
    check_dot(render(program, "dot"))
    check_mermaid(render(program, "mermaid"))
    assert json.loads(render(program, "json"))["main"] == NASTY
    assert parse_program(render(program, "text"), check=False) == program


def test_picture_of_the_judge_says_what_it_does() -> None:
    text = " ".join(
        element.text or ""
        for element in ElementTree.fromstring(render(essay_judge(), "svg")).iter()
    )
    for words in (
        'judge(essay: str, dimensions: list[str] = ("clarity", "style"))',
        "fork f0 × len(dimensions)",
        "for f, d in zip(f0, dimensions)",
        "Judge its {d} in one sentence.",
        "Essay:⏎{essay}",
        "gen judgment",
        "max_tokens=48",
        "select grade",
        "return grade",
        "user",
    ):
        assert words in text


BRANCHING = """
program main

graph main(xs) {
  %0 = Select name="v" ordinal=0 choices=("a", "b")
  %1 = Expr fn="==" args=(%0, "a")
  %2 = Branch cond=%1
  %3 = ConstantText if %2 text="one"
  %4 = Gen if %2 name="w" ordinal=1
  %5 = ConstantText if not %2 text="two"
  %6 = Merge values=(%4, "none") tokens=((%2, True), (%2, False))
  %7 = Expr fn="text" args=(%6,) append=True
  %8 = Loop over=() item_params=() index_param="i" captures={} max=4 carried={"n": 0}
      body main.loop(i, n) {
    %0 = Argument name="n"
    %1 = Gen name="x" ordinal=%0
    %2 = Expr fn="+" args=(%0, 1)
    %3 = Branch cond=%1
    %4 = Merge values=(1, 0) tokens=((%3, True), (%3, False))
    %5 = Return value=None vars={"n": %2} kind=%4
  }
  %9 = Variable name="n" of=%8 field="output"
  %10 = Expr fn="text" args=(%9,) append=True
  %11 = Return value=%6 vars={}
}
"""


def test_arms_are_drawn_from_their_branch() -> None:
    """One edge to what begins an arm; merged values stand in the labels of who uses them."""
    program = parse_program(BRANCHING)
    (main, _) = boxes(program)
    arms = {(e.source, e.target, e.label) for e in main.edges if e.label}
    assert arms == {(2, 3, "yes"), (2, 5, "no")}
    labels = {at: " ".join(item.lines) for at, item in main.items.items()}
    assert labels[2] == 'if v == "a"'
    assert labels[7] == '{(w if v == "a" else "none")}'
    assert main.items[8].box is not None
    assert main.items[8].box.title == "for i, at most 4 passes, carrying n"
    assert labels[10] == "{n}"
    assert 6 not in labels
    for layout in layouts(program):
        geometry_is_clean(layout)
    assert "-.->|yes|" in render(program, "mermaid")
    assert 'label="no"' in render(program, "dot")
    assert ">yes</text>" in render(program, "svg")


def test_json_holds_every_node() -> None:
    program = essay_judge()
    data = json.loads(render(program, "json"))
    (graph,) = data["graphs"]
    assert [node["id"] for node in graph["nodes"]] == list(range(len(program.graph.nodes)))
    loop = next(node for node in graph["nodes"] if node["op"] == "Loop")
    assert loop["body"]["nodes"][9]["path"] == "f0[*]/g0"
    assert loop["attrs"]["captures"] == {"forks": {"ref": 10}}


def test_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="text, mermaid, dot, svg, json"):
        render(essay_judge(), "png")


def test_words_are_measured_and_cut_in_cells() -> None:
    assert cells("a漢é") == 4
    assert cells("e\u0301") == 1
    assert shorten("漢字漢字", 5) == "漢字…"
    assert wrap("one two three", 7) == ["one two", "three"]
    assert wrap("x" * 100, 10, 2) == ["x" * 10, "x" * 9 + "…"]


# What a label of a mermaid flowchart may hold: our plain characters and character codes.
LABEL = r"(?:[^\"#;`<>&%\\|~^$@\n]|#[0-9]+;|<br/>)*"
KEY = r"g[0-9]+(?:_n?[0-9]+)*"
MERMAID = [
    r"flowchart TB",
    rf' *subgraph {KEY}\["{LABEL}"\]',
    r" *direction TB",
    r" *end",
    rf' *{KEY}(?:\["{LABEL}"\]|\(\["{LABEL}"\]\)|\[\["{LABEL}"\]\]|\{{\{{"{LABEL}"\}}\}}'
    rf'|\("{LABEL}"\)|\{{"{LABEL}"\}})',
    rf" *{KEY} (?:-->|-\.->)(?:\|(?:yes|no)\|)? {KEY}",
]


def check_mermaid(text: str) -> None:
    depth = 0
    for line in text.splitlines():
        assert any(re.fullmatch(pattern, line) for pattern in MERMAID), line
        depth += line.lstrip().startswith("subgraph ")
        depth -= line.strip() == "end"
    assert depth == 0


STRING = r'"(?:[^"\\]|\\["\\n])*"'
WORD = rf"(?:[a-zA-Z_][a-zA-Z_0-9]*|{STRING})"
OPTIONS = rf" \[{WORD}={WORD}(?:, {WORD}={WORD})*\]"
DOT = [
    rf"digraph {STRING} \{{",
    rf" *{WORD}(?:={WORD}|{OPTIONS});",
    r" *(?:node|graph) \[.*\];",
    rf" *subgraph {STRING} \{{",
    r" *\}",
    rf" *{KEY} -> {KEY}(?:{OPTIONS})?;",
    rf" *{KEY}{OPTIONS};",
]


def check_dot(text: str) -> None:
    for line in text.rstrip("\n").split("\n"):
        assert any(re.fullmatch(pattern, line, re.DOTALL) for pattern in DOT), line
    assert text.count("{\n") == sum(line.strip() == "}" for line in text.split("\n"))
