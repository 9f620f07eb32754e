"""Skeleton of thought: five tips one after the other, each expanded by a program of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.suites.skeleton_of_thought import EXAMPLES
from sgc_ir.errors import EvalDataError


def reply(prompt: str, params: Any) -> str:
    if prompt.startswith(EXAMPLES):
        tip = prompt.rpartition(": ")[2].partition(".")[0]
        return f" About {tip}\nin two lines.\n\nUSER:"
    return f" tip {prompt.rpartition(chr(10))[2]}\n6."


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_tips_and_their_paragraphs(mode: str) -> None:
    rows = builtin_rows("skeleton-of-thought", limit=2)
    ran = run_suite("skeleton-of-thought", rows, reply, mode)
    tips = [f"tip {i}" for i in range(1, 6)]
    paragraphs = [f"About {tip}\nin two lines." for tip in tips]
    assert ran.values == [{"tips": tips, "paragraphs": paragraphs}] * 2
    expanding = [c for c in ran.calls if c["prompt"].startswith(EXAMPLES)]
    writing = [c for c in ran.calls if not c["prompt"].startswith(EXAMPLES)]
    assert len(expanding) == len(writing) == 10
    assert {(c["params"]["max_tokens"], *c["params"]["stop"]) for c in expanding} == {(128, "\n\n")}
    assert {(c["params"]["max_tokens"], *c["params"]["stop"]) for c in writing} == {(24, ".", "\n")}
    assert EXAMPLES.count("USER:") == 3
    for row in rows:
        assert sum(row.arguments["topic"] in c["prompt"] for c in ran.calls) == 10


def test_a_missing_column_stops_and_a_broken_row_is_named(tmp_path: Path) -> None:
    path = tmp_path / "topic.jsonl"
    path.write_text('{"topic": "a"}\n{"topic": 3}\n{"number": 5}\n', "utf-8")
    rows = builtin_rows("skeleton-of-thought", folder=tmp_path)
    assert [bool(row.problem) for row in rows] == [False, True, True]
    path.write_text('{"number": 5}\n', "utf-8")
    with pytest.raises(EvalDataError, match="'topic'"):
        builtin_rows("skeleton-of-thought", folder=tmp_path)
