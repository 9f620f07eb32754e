"""The timeline: what a trace becomes, and what a browser paints of it."""

from __future__ import annotations

import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from support.browser import Opened

from sgc.page.build import MAX_FAILURES, explain_page
from sgc.page.paths import CallKey, NodeFinder
from sgc.page.timeline import Timeline
from sgc.page.trace import TraceError, read_trace
from sgc_ir.text import parse_program

START = 1_700_000_000_000_000
GRAPH = """
program demo
graph demo(q: str) {
  %0 = Argument name="q"
  %1 = Expr fn="text" args=(%0,) append=True
  %2 = Gen name="first" ordinal=0 max_tokens=4
  %3 = Gen name="second" ordinal=1 max_tokens=4
  %4 = Return value=%3 vars={}
}
"""
RESULT = {"unit": "tokens", "rows": 2, "failures": {}, "nodes": [], "money": {}}


def call(row: int, name: str, start: int, duration: int, **facts: Any) -> dict[str, Any]:
    path = {"first": "g0", "second": "g1"}.get(name, "g2")
    known = {"node": path, "name": name, "program": "demo", "source": None, "state": "ok"}
    place = {"pid": row + 1, "tid": 1, "ts": START + start, "dur": duration}
    return {"ph": "X", "name": name, "cat": "gen", **place, "args": known | facts}


def part(row: int, name: str, start: int, duration: int) -> dict[str, Any]:
    place = {"pid": row + 1, "tid": 1, "ts": START + start, "dur": duration}
    return {"ph": "X", "name": name, "cat": "part", **place}


def begun(row: int, start: int) -> list[dict[str, Any]]:
    named = {"ph": "M", "pid": row + 1}
    place = {"pid": row + 1, "tid": 1, "ts": START + start}
    return [
        {**named, "name": "process_name", "tid": 0, "args": {"name": f"row {row}"}},
        {**named, "name": "thread_name", "tid": 1, "args": {"name": "main"}},
        {"ph": "B", **place, "name": "demo", "cat": "program"},
    ]


def ended(row: int, at: int, **facts: Any) -> dict[str, Any]:
    return {"ph": "E", "pid": row + 1, "tid": 1, "ts": START + at, "args": facts}


RUN = {"name": "sgc run", "ph": "i", "s": "p", "ts": START, "pid": 99999999, "tid": 0, "args": {}}
USAGE = {"prompt_tokens": 7, "cached_tokens": 3, "completion_tokens": 5, "forced_tokens": 1}
EVENTS = [
    RUN,
    *begun(0, 0),
    *begun(1, 100_000),
    call(0, "first", 0, 400_000, **USAGE, scored_tokens=0),
    part(0, "queued", 0, 100_000),
    part(0, "prefill", 100_000, 100_000),
    part(0, "decode", 200_000, 200_000),
    call(0, "second", 500_000, 300_000, state="failed", error="the <b>line</b> was cut"),
    ended(0, 800_000, error="GenerationError: the <b>line</b> was cut"),
    call(1, "first", 200_000, 800_000),
    ended(1, 1_000_000),
]


def written(events: list[dict[str, Any]]) -> list[str]:
    return ["[\n", *(json.dumps(event) + ",\n" for event in events)]


def test_the_last_run_of_a_file_is_kept_in_the_order_of_rows() -> None:
    earlier = [RUN, *begun(0, -900), call(0, "first", -800, 10), ended(0, -700)]
    later = [RUN, *begun(1, 5), *begun(0, 7), call(0, "first", 9, 10), call(0, "odd", 30, 10)]
    trace = read_trace(written(earlier + later))
    data = Timeline(trace).data(NodeFinder([CallKey("demo", "g0", "first", "")], relative=True))
    assert (data["runs"], data["leftOut"]) == (2, 0)
    assert [row["title"] for row in data["rows"]] == ["row 0", "row 1"]
    assert [(row["start"], row["end"]) for row in data["rows"]] == [(2, 35), (0, 0)]
    slices = data["rows"][0]["tracks"][0]["slices"]
    assert [found[:2] for found in slices] == [[4, 10], [25, 10]]
    assert [found[5] for found in slices] == [0, -1]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Any:
    timeline = Timeline(read_trace(written(EVENTS)))
    page = tmp_path / "page.html"
    page.write_text(explain_page(parse_program(GRAPH), RESULT, [], {}, timeline))
    found = Opened(browser, page)
    found.page.wait_for_timeout(100)
    yield found
    assert found.faults == []
    found.page.close()


class Canvas:
    """Where times lie on the canvas of the timeline, and what is painted there."""

    def __init__(self, opened: Any) -> None:
        self.page = opened.page
        self.page.evaluate("document.getElementById('timeline').scrollIntoView()")
        self.page.wait_for_timeout(50)
        self.box = self.page.query_selector("#slices").bounding_box()

    def at(self, when: float, line: int, whole: tuple[float, float]) -> tuple[float, float]:
        """Of a time in the middle of a line; lines have 18 pixels, rows are 6 apart."""
        first, last = whole
        gutter = 150
        x = gutter + (when - first) / (last - first) * (self.box["width"] - gutter)
        return x, 20 + line * 24 + 12

    def colour(self, x: float, y: float) -> list[int]:
        script = """([x, y]) => {
            const copy = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
            const place = [Math.round(x), Math.round(y), 1, 1, 0, 0, 1, 1];
            copy.drawImage(document.getElementById("slices"), ...place);
            return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }"""
        found: list[int] = self.page.evaluate(script, [x, y])
        return found

    def named(self, name: str) -> list[int]:
        value = self.page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('--t-{name}').trim()"
        )
        return [int(value[i : i + 2], 16) for i in (1, 3, 5)]


ALL = (-10_000.0, 1_010_000.0)


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "[" * 100_000,
        json.dumps(RUN | {"pid": "1"}),
        json.dumps({"ph": "X", "pid": 1, "tid": [1], "ts": START}),
        json.dumps(call(0, "first", 1, 2) | {"ts": "x"}),
        json.dumps(call(0, "first", 1, 2) | {"dur": None}),
        json.dumps(call(0, "first", 1, 2) | {"args": [1]}),
        json.dumps(call(0, "first", 1, 2, prompt_tokens=3, cached_tokens="4")),
    ],
)
def test_a_line_that_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(TraceError, match="no event"):
        read_trace(["[\n", f"{json.dumps(RUN)},\n", f"{line},\n"])


def test_a_call_may_lack_some_counts() -> None:
    events = [RUN, *begun(0, 0), call(0, "first", 1, 2, prompt_tokens=3)]
    trace = read_trace(["[\n", *(f"{json.dumps(event)},\n" for event in events)])
    (row,) = Timeline(trace).data(NodeFinder([]))["rows"]
    assert row["tracks"][0]["slices"][0][7] == [3, 0, 0, 0, 0]


def test_stages_are_painted_where_they_were(opened: Any) -> None:
    canvas = Canvas(opened)
    for when, name in ((80_000, "queued"), (180_000, "prefill"), (380_000, "decode")):
        assert canvas.colour(*canvas.at(when, 0, ALL)) == canvas.named(name), name
    assert canvas.colour(*canvas.at(700_000, 0, ALL)) == canvas.named("call")
    assert canvas.colour(*canvas.at(900_000, 1, ALL)) == canvas.named("call")
    x, y = canvas.at(700_000, 0, ALL)
    assert canvas.colour(x, y + 4) == canvas.named("failed")
    shown = [item.strip() for item in opened.text("#legend").splitlines() if item.strip()]
    assert " ".join(shown).split() == "queued prefill decode call, no stages failed".split()


def test_pointing_tells_and_a_click_chooses(opened: Any) -> None:
    canvas = Canvas(opened)
    x, y = canvas.at(300_000, 0, ALL)
    opened.page.mouse.move(canvas.box["x"] + x, canvas.box["y"] + y)
    told = opened.text("#tip")
    assert "first (gen)" in told
    assert "400 ms from 0 s on" in told
    assert "prompt 7, cached 3, generated 5, forced 1" in told
    opened.page.mouse.down()
    opened.page.mouse.up()
    assert "demo: g0" in opened.text("#details")
    x, y = canvas.at(700_000, 0, ALL)
    canvas = Canvas(opened)
    opened.page.mouse.move(canvas.box["x"] + x, canvas.box["y"] + y)
    assert "the <b>line</b> was cut" in opened.text("#tip")
    opened.page.mouse.move(canvas.box["x"] + canvas.at(450_000, 0, ALL)[0], canvas.box["y"] + y)
    assert not opened.page.is_visible("#tip")


def test_zooming_and_moving_show_other_times(opened: Any) -> None:
    canvas = Canvas(opened)
    opened.page.click("#time-in")
    size = (ALL[1] - ALL[0]) / 1.6
    middle = sum(ALL) / 2
    zoomed = (middle - size / 2, middle + size / 2)
    opened.page.wait_for_timeout(50)
    assert canvas.colour(*canvas.at(380_000, 0, zoomed)) == canvas.named("decode")
    assert canvas.colour(*canvas.at(195_000, 0, zoomed)) == canvas.named("prefill")
    opened.page.focus("#timeline")
    opened.page.keyboard.press("ArrowLeft")
    opened.page.wait_for_timeout(50)
    moved = (zoomed[0] - 0.2 * size, zoomed[1] - 0.2 * size)
    assert canvas.colour(*canvas.at(80_000, 0, moved)) == canvas.named("queued")
    opened.page.click("#time-all")
    opened.page.wait_for_timeout(50)
    assert canvas.colour(*canvas.at(900_000, 1, ALL)) == canvas.named("call")


def test_the_chart_counts_calls_at_once(browser: Any) -> None:
    """Against the overlaps of parts and bins, added up one by one."""
    script = files("sgc.page").joinpath("assets", "load.js").read_text("utf-8")
    page = browser.new_page()
    draw = random.Random(5)
    for _ in range(20):
        parts = [
            [draw.randrange(4), start, start + draw.choice([0, 3, draw.randrange(500)])]
            for start in (draw.randrange(-200, 900) for _ in range(draw.randrange(40)))
        ]
        first, last, bins = draw.randrange(300), 300 + draw.randrange(1, 400), draw.randrange(1, 40)
        found = page.evaluate(
            "([parts, first, last, bins]) => { const data = {};"
            + script
            + "return meanLoad(parts, first, last, bins).map((stage) => [...stage]) }",
            [parts, first, last, bins],
        )
        step = (last - first) / bins
        for stage, means in enumerate(found):
            for at, mean in enumerate(means):
                low, high = first + at * step, first + (at + 1) * step
                overlaps = (
                    max(0.0, min(end, high) - max(start, low))
                    for kind, start, end in parts
                    if kind == stage
                )
                assert mean == pytest.approx(sum(overlaps) / step, abs=1e-9)
    page.close()


def test_rows_with_failures_are_named_up_to_a_number_and_then_counted(
    browser: Any, tmp_path: Path
) -> None:
    failures = {str(row): "list index out of range" for row in range(MAX_FAILURES + 5)}
    page = tmp_path / "page.html"
    page.write_text(explain_page(parse_program(GRAPH), RESULT | {"failures": failures}, [], {}))
    opened = Opened(browser, page)
    notes = opened.page.locator("#notes p").all_inner_texts()
    opened.page.close()
    assert len(notes) == MAX_FAILURES + 1
    assert notes[0] == "row 0: list index out of range"
    assert notes[-1] == "5 more rows with nodes that cannot be computed"
