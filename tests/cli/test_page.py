"""`sgc explain --format html`, `sgc inspect --format html`: what the page holds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.cli import Sgc
from support.trace_events import load, nodes

from sgc.page.trace import TraceError, read_trace

PROGRAM = """
import sgc


@sgc.function
def sub(s, topic: str):
    s += f"On {topic}: " + sgc.gen("note", max_tokens=3)
    return s["note"]


@sgc.function
def quiz(s, q: str):
    s += "Answer with one word. "
    s += q + " Answer: " + sgc.gen("a", max_tokens=4)
    branches = s.fork(2)
    for i, branch in enumerate(branches):
        branch += f"Part {i}. " + sgc.gen("part", max_tokens=2)
    branches.join()
    if s["a"] == "yes":
        s += "Why? " + sgc.gen("why", max_tokens=2)
    s += sgc.gen("end", max_tokens=2)
    return sub(topic=q).value
"""


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    path = tmp_path / "quiz.py"
    path.write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text('{"q": "One?"}\n{"q": "Two three?"}\n')
    return path


def held(page: str) -> dict[str, Any]:
    """The data that a page shows."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_program_with_costs_and_the_timeline_of_its_run(
    sgc_cli: Sgc, quiz: Path, tmp_path: Path
) -> None:
    rows, stats, trace = (tmp_path / name for name in ("rows.jsonl", "s.json", "t.json"))
    options = ("--stats", stats, "--trace", trace, "-o", tmp_path / "out.jsonl", "--quiet")
    assert sgc_cli("run", quiz, "--inputs", rows, *options).code == 0
    asked = ("explain", quiz, "--inputs", rows, "--analyze", stats)
    page = tmp_path / "page.html"
    result = sgc_cli(*asked, "--trace", trace, "--format", "html", "-o", page)
    assert (result.code, result.out, result.err) == (0, "", "")
    data = held(page.read_text())
    plain = json.loads(sgc_cli(*asked, "--format", "json").out)
    assert [row["calls"] for row in data["costs"]] == [n["calls"] for n in plain["nodes"]]
    assert [row["actual"]["calls"] for row in data["costs"]] == [
        node["calls"] for node in plain["actual"]
    ]
    for row in data["costs"]:
        shown = [data["nodes"][number] for number in row["nodes"]]
        assert {node["name"] for node in shown} == {row["name"]}
        assert {node["source"] for node in shown} == {row["source"]}
        assert len(shown) == (2 if row["name"] == "part" else 1)
    lines = PROGRAM.splitlines()
    for place, text in data["sources"].items():
        assert text == lines[int(place.rpartition(":")[2]) - 1]
    words = data["timeline"]["words"]
    kept = [track for row in data["timeline"]["rows"] for track in row["tracks"]]
    ran = [found for track in kept for found in track["slices"]]
    assert len(ran) == len(nodes(load(trace))) == 2 * 5
    for found in ran:
        assert data["nodes"][found[5]]["name"] == words[found[2]]


def test_a_page_of_a_graph(sgc_cli: Sgc, quiz: Path, tmp_path: Path) -> None:
    result = sgc_cli("inspect", quiz, "--format", "html")
    assert result.code == 0
    data = held(result.out)
    plain = json.loads(sgc_cli("inspect", quiz, "--format", "json").out)
    paths = {
        graph["name"]: {n["path"]: n["op"] for n in graph["nodes"]} for graph in plain["graphs"]
    }
    assert data["nodes"]
    for node in data["nodes"]:
        assert paths[node["graph"]][node["path"]] == node["op"]
    calls = [n for n in data["nodes"] if n["op"] == "Gen"]
    assert len(calls) == sum(op == "Gen" for graph in paths.values() for op in graph.values())
    assert len(data["graph"]["items"]) == len(data["nodes"])
    assert "costs" not in data


def test_an_artefact_names_files_that_are_not_read(
    sgc_cli: Sgc, quiz: Path, tmp_path: Path
) -> None:
    artefact = tmp_path / "quiz.sgc"
    assert sgc_cli("compile", quiz, "-o", artefact).code == 0
    data = held(sgc_cli("inspect", artefact, "--format", "html").out)
    assert data["sources"] == {}
    assert data["nodes"][0]["source"].startswith(str(quiz))


def test_wrong_wishes_are_refused(sgc_cli: Sgc, quiz: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    asked = ("explain", quiz, "--inputs", rows)
    result = sgc_cli(*asked, "--trace", rows)
    assert result.code == 2
    assert "add --format html" in result.err
    for wrong in (rows, tmp_path / "none.json"):
        result = sgc_cli(*asked, "--trace", wrong, "--format", "html")
        assert result.code == 2
        assert str(wrong) in result.err
        result = sgc_cli(*asked, "--rates", wrong)
        assert result.code == 2
        assert f"--rates {wrong}" in result.err
    assert sgc_cli(*asked, "-o", rows).code == 2
    assert sgc_cli("inspect", "--fsm", "a+", "--format", "html").code == 2


def test_a_trace_may_end_anywhere(sgc_cli: Sgc, quiz: Path, tmp_path: Path) -> None:
    rows, trace = tmp_path / "rows.jsonl", tmp_path / "t.json"
    sgc_cli("run", quiz, "--inputs", rows, "--trace", trace, "-o", tmp_path / "o", "--quiet")
    text = trace.read_text()
    begun = text.index("sgc run") + 200
    for end in range(begun, len(text), 97):
        cut = tmp_path / "cut.json"
        cut.write_text(text[:end])
        with cut.open() as lines:
            found = read_trace(lines)
        kept = sum(len(calls) for row in found.rows for calls in row.slices.values())
        whole = [event for event in load(cut) if event["ph"] == "X" and "node" in event["args"]]
        assert kept == len(whole)
    for wrong in ("", "{}", "[\n", "[\n[]\n", '[\n{"ph":1,}\n{}\n', "[\n3\n"):
        with pytest.raises(TraceError):
            read_trace(wrong.splitlines(keepends=True))
