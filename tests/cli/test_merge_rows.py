"""`sgc run --merge`: what is counted, listed, recorded and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.cli import Sgc

from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.tool(effect="pure")
def size(text: str):
    return len(text)

@sgc.function
def ask(s, document: str, question: str):
    s += document + str(sgc.call(size, document))
    s += sgc.gen("summary", temperature=0, max_tokens=3)
    s += question + sgc.gen("free", max_tokens=4)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "ask.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.jsonl"
    rows = [{"document": f"d{i % 2}", "question": f"q{i}"} for i in range(6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def summaries(backend: ScriptedBackend) -> int:
    found = sum(call["node"] == "g1" for call in backend.calls)
    backend.calls.clear()
    return found


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_merged_calls_are_counted_and_listed(
    sgc_cli: Sgc,
    program: Path,
    table: Path,
    tmp_path: Path,
    scripted: ScriptedBackend,
    mode: str,
) -> None:
    stats: list[dict[str, Any]] = []
    found = []
    for options in [], ["--merge"]:
        path = tmp_path / "stats.json"
        given = ("--inputs", table, "--mode", mode, "--stats", path, *options)
        found.append(sgc_cli("run", program, *given))
        stats.append(json.loads(path.read_text()))
        assert summaries(scripted) == (2 if options else 6)
    plain, merged = stats
    assert found[0].rows == found[1].rows, "rows report what they would have used"
    assert (plain["merged_calls"], merged["merged_calls"]) == (0, 8)
    assert "merged" not in plain
    listed = {group["node"]: group["rows"] for group in merged["merged"]}
    assert listed.keys() == {"g0", "g1"}
    for pairs in listed.values():
        assert all(row % 2 == made % 2 and row != made for row, made in pairs)
        assert len({made for _, made in pairs}) == 2, "one row of each document makes the call"
        assert {row for pair in pairs for row in pair} == set(range(6))
    calls = {n["name"]: n["calls"] for n in merged["nodes"]}
    assert calls == {"summary": 2, "free": 6}
    for name in ("prompt_tokens", "completion_tokens"):
        assert merged[name] == sum(node[name] for node in merged["nodes"]) < plain[name]


def test_a_record_holds_each_call_of_each_row(
    sgc_cli: Sgc, program: Path, table: Path, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    record = tmp_path / "record.jsonl"
    made = sgc_cli("run", program, "--inputs", table, "--merge", "--record", record)
    assert summaries(scripted) == 2
    for options in [], ["--merge"]:
        again = sgc_cli("run", program, "--inputs", table, "--replay", record, *options)
        assert (again.code, again.rows) == (0, made.rows)


def test_a_run_with_merged_calls_resumes(
    sgc_cli: Sgc, program: Path, table: Path, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    """The journal of a row has its own results, whoever made the call."""
    direct = sgc_cli("run", program, "--inputs", table)
    out = tmp_path / "out.jsonl"
    scripted.calls.clear()
    scripted.fail = lambda prompt: ValueError("no") if "q" in prompt else None
    options = ("run", program, "--inputs", table, "-o", out)
    assert sgc_cli(*options, "--merge").code == 1
    assert summaries(scripted) == 2
    scripted.fail = None
    resumed = sgc_cli(*options, "--resume")
    assert (resumed.code, summaries(scripted)) == (0, 0)
    assert [json.loads(line) for line in out.read_text().splitlines()] == direct.rows


def test_a_resumed_run_merges_into_what_was_restored(
    sgc_cli: Sgc, program: Path, table: Path, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    out = tmp_path / "out.jsonl"
    scripted.fail = lambda prompt: ValueError("no") if "q" in prompt else None
    few = tmp_path / "few.jsonl"
    few.write_text("".join(table.read_text().splitlines(keepends=True)))
    options = ("run", program, "--inputs", few, "-o", out, "--merge")
    assert sgc_cli(*options).code == 1
    scripted.calls.clear()
    scripted.fail = None
    assert sgc_cli(*options, "--resume").code == 0
    assert summaries(scripted) == 0
