"""Rows of `sgc run`: bounded concurrency, bounded distance from the oldest unfinished row."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cli import Sgc

from sgc.cli import batch
from sgc.cli.batch import RowBatch
from sgc.cli.inputs import Row


def run(num_rows: int, parallel: int, slow: dict[int, float]) -> dict[str, Any]:
    """Runs rows that sleep; notes how many ran at once and how far they got ahead."""
    seen: dict[str, Any] = {"now": 0, "most": 0, "ahead": 0, "order": [], "open": set(), "read": 0}

    def rows() -> Iterator[Row]:
        for i in range(num_rows):
            seen["read"] += 1
            yield Row(i, f"x:{i}", {})

    async def start(row: Row) -> int:
        seen["now"] += 1
        seen["open"].add(row.index)
        seen["most"] = max(seen["most"], seen["now"])
        seen["ahead"] = max(seen["ahead"], row.index - min(seen["open"]))
        await asyncio.sleep(slow.get(row.index, 0))
        seen["now"] -= 1
        seen["open"].discard(row.index)
        return row.index

    RowBatch(start, lambda row, out: seen["order"].append(out), lambda: None, parallel).run(rows())
    return seen


def test_a_slow_row_bounds_how_far_the_others_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "LEAST_AHEAD", 0)
    seen = run(2000, 4, {0: 0.3})
    assert 4 < seen["ahead"] <= 4 * batch.ROWS_AHEAD + 4
    assert seen["most"] == 4
    assert sorted(seen["order"]) == list(range(2000))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 60),
    st.integers(1, 7),
    st.dictionaries(st.integers(0, 59), st.sampled_from([0.001, 0.01]), max_size=10),
)
def test_every_row_runs_once(num_rows: int, parallel: int, slow: dict[int, float]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "LEAST_AHEAD", 0)
        patch.setattr(batch, "ROWS_AHEAD", 2)
        seen = run(num_rows, parallel, slow)
    assert sorted(seen["order"]) == list(range(num_rows))
    assert seen["most"] <= parallel
    assert seen["ahead"] <= 3 * parallel
    assert seen["read"] == num_rows


PROGRAM = """
import threading
import sgc


@sgc.tool(effect="pure", name="patient_tool")
def patient(name):
    threading.Event().wait(20 if name == "slow" else 0)
    return name


@sgc.function
def wait(s, name: str):
    s += name + sgc.gen("v")
    return sgc.call(patient, name)
"""


def test_deadlines_and_retries_are_options(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text('{"name": "slow"}\n{"name": "ok"}\n')
    arguments = ("run", tmp_path / "p.py", "--inputs", tmp_path / "rows.jsonl", "--quiet")
    result = sgc_cli(*arguments, "--deadline", "patient_tool=0.1", "--retries", "1")
    assert result.code == 1
    assert "deadline of 0.1 s (after 2 attempts)" in result.rows[0]["error"]["message"]
    assert result.rows[1]["value"] == "ok"
    result = sgc_cli(*arguments, "--row-deadline", "0.2")
    assert "in flight: g1" in result.rows[0]["error"]["message"]
    assert result.rows[0]["vars"] == {"v": result.rows[1]["vars"]["v"]}
    for option, value in (("--deadline", "v=x"), ("--retries", "=3"), ("--row-deadline", "0")):
        assert sgc_cli(*arguments, option, value).code == 2


def test_names_that_no_node_has_are_told(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    arguments = ("run", tmp_path / "p.py", "--arg", "name=x", "--deadline", "TYPO=3")
    result = sgc_cli(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "deadline of TYPO" in result.err
    assert "the names are patient_tool, v" in result.err
    assert result.err.count("\n") == 1
    result = sgc_cli(*arguments, "--mode", "interpreted")
    assert result.code == 0
    assert result.err.count("deadline of TYPO: no node or tool that ran has that name") == 1


def test_a_replayed_run_gives_the_same_bytes(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text("".join(f'{{"name": "n{i}"}}\n' for i in range(20)))
    inputs = ("run", tmp_path / "p.py", "--inputs", tmp_path / "rows.jsonl", "--quiet")
    record, a, b = (tmp_path / name for name in ("r.jsonl", "a.jsonl", "b.jsonl"))
    assert sgc_cli(*inputs, "-o", a, "--record", record).code == 0
    assert sgc_cli(*inputs, "-o", b, "--replay", record, "--full-text").code == 0
    assert sgc_cli(*inputs, "-o", b, "--replay", record).code == 0
    assert a.read_bytes() == b.read_bytes()
    result = sgc_cli(*inputs, "--replay", record, "--max-tokens", "1")
    assert result.code == 1
    assert "other parameters (max_tokens=128, now 1)" in result.rows[0]["error"]["message"]


def test_records_that_cannot_be_are_refused(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    run = ("run", tmp_path / "p.py", "--arg", "name=a", "--quiet")
    assert sgc_cli(*run, "--record", tmp_path / "p.py").code == 2
    assert sgc_cli(*run, "--record", tmp_path / "none" / "r").code == 2
    assert sgc_cli(*run, "--replay", tmp_path / "none").code == 2
    assert sgc_cli(*run, "--replay", tmp_path / "p.py").code == 2
    assert "--dtype" in sgc_cli(*run, "--replay", tmp_path / "p.py", "--dtype", "float32").err


def test_a_replayed_record_is_only_read(sgc_cli: Sgc, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text(PROGRAM)
    run = ("run", tmp_path / "p.py", "--arg", "name=a", "--quiet")
    record = tmp_path / "r.jsonl"
    assert sgc_cli(*run, "--record", record).code == 0
    before = record.read_bytes()
    for option, path in (("--output", record), ("--stats", record), ("--record", tmp_path / "new")):
        result = sgc_cli(*run, "--replay", record, option, path)
        assert result.code == 2
        assert "replay" in result.err
    assert record.read_bytes() == before
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_many_rows_run_in_bounded_memory(sgc_cli: Sgc, tmp_path: Path) -> None:
    import resource

    (tmp_path / "p.py").write_text(
        "import sgc\n@sgc.function\ndef f(s, i: int):\n    s += f'{i}'\n    return i\n"
    )
    sizes = []
    for count in (20_000, 200_000):
        with open(tmp_path / "rows.jsonl", "w") as rows:
            rows.writelines(json.dumps({"i": i}) + "\n" for i in range(count))
        out = tmp_path / "out.jsonl"
        result = sgc_cli(
            "run", tmp_path / "p.py", "--inputs", tmp_path / "rows.jsonl", "-o", out, "--quiet"
        )
        assert result.code == 0
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert sizes[1] - sizes[0] < 30_000  # KiB
    assert threading.active_count() < 100
