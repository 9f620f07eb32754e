"""`sgc run` over rows: the order of their starts, constants of the run, and the same output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc

from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.function
def ask(s, document: str, question: str, style: str = "short"):
    s += document + f"({style}) " + question
    s += sgc.gen("answer", max_tokens=4)
    return style
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "ask.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.jsonl"
    rows = [{"document": f"{'AB'[i % 2]} " * 30, "question": f"q{i}"} for i in range(6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def asked(backend: ScriptedBackend) -> str:
    found = "".join(call["prompt"].partition("q")[2] for call in backend.calls)
    backend.calls.clear()
    return found


def test_rows_start_in_the_order_of_a_plan(
    sgc_cli: Sgc, program: Path, table: Path, scripted: ScriptedBackend
) -> None:
    scripted.keeps_prefixes = True
    planned = sgc_cli("run", program, "--inputs", table, "--parallel", 1)
    assert asked(scripted) == "024135"
    plain = sgc_cli("run", program, "--inputs", table, "--parallel", 1, "--no-plan")
    assert asked(scripted) == "012345"
    assert planned.code == plain.code == 0
    assert planned.rows == plain.rows
    assert [row["index"] for row in planned.rows] == list(range(6))


def test_rows_of_a_pipe_start_as_they_come_unless_asked(
    sgc_cli: Sgc,
    program: Path,
    table: Path,
    scripted: ScriptedBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted.keeps_prefixes = True
    for options, order in ([], "012345"), (["--reorder-rows"], "024135"):
        with table.open(encoding="utf-8") as handle:
            monkeypatch.setattr("sys.stdin", handle)
            found = sgc_cli("run", program, "--inputs", "-", "--parallel", 1, *options)
        assert (found.code, asked(scripted)) == (0, order)


def test_reordering_that_would_do_nothing_is_refused(
    sgc_cli: Sgc, program: Path, table: Path
) -> None:
    for options in (["--no-plan"], ["--mode", "interpreted"]):
        found = sgc_cli("run", program, "--inputs", table, "--reorder-rows", *options)
        assert (found.code, "--reorder-rows" in found.err) == (2, True)


def test_a_resumed_run_plans_what_is_left(
    sgc_cli: Sgc, program: Path, table: Path, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    """Rows of one document fail; only they run again, and every row is there once, in order."""
    scripted.keeps_prefixes = True
    out, stats = tmp_path / "out.jsonl", tmp_path / "s.json"
    direct = sgc_cli("run", program, "--inputs", table)
    asked(scripted)
    fail = scripted.fail
    scripted.fail = lambda prompt: ValueError("no") if prompt.startswith("B") else None
    options = ("run", program, "--inputs", table, "-o", out, "--parallel", 1, "--stats", stats)
    assert sgc_cli(*options).code == 1
    assert asked(scripted) == "024135"
    scripted.fail = fail
    assert sgc_cli(*options, "--resume").code == 0
    assert asked(scripted) == "135"
    assert [json.loads(line) for line in out.read_text().splitlines()] == direct.rows


def test_what_rows_have_in_common_is_a_constant_of_the_run(
    sgc_cli: Sgc, program: Path, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    table, stats = tmp_path / "same.jsonl", tmp_path / "s.json"
    rows = [{"document": "D ", "question": f"q{i}", "style": "long"} for i in range(3)]
    started = []
    for more in [], [{"document": "E ", "question": "q3", "style": "brief"}]:
        table.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *more]))
        found = sgc_cli("run", program, "--inputs", table, "--stats", stats)
        assert [row["value"] for row in found.rows[:3]] == ["long"] * 3
        assert [call["prompt"] for call in scripted.calls][:1] == ["D (long) q0"]
        scripted.calls.clear()
        started.append(json.loads(stats.read_text())["started_nodes"] / len(found.rows))
    assert started[0] < started[1]


def test_a_row_that_cannot_be_read_keeps_no_other_from_running(
    sgc_cli: Sgc, program: Path, table: Path, scripted: ScriptedBackend
) -> None:
    scripted.keeps_prefixes = True
    table.write_text(table.read_text() + "{broken\n" + json.dumps({"document": "C "}) + "\n")
    found = sgc_cli("run", program, "--inputs", table, "--parallel", 2)
    assert [row["error"] is None for row in found.rows] == [True] * 6 + [False] * 2
    assert f"{table}:7" in found.rows[6]["error"]["source"]
