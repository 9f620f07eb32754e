"""The judge: six opinions behind one essay, then a grade behind all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.suites.llm_judge import DIMENSIONS


def reply(prompt: str, params: Any) -> str:
    if prompt.endswith("Grade:"):
        return " B, well"
    name = next(name for name, meaning in DIMENSIONS if f"{name}: {meaning}" in prompt)
    return f" its {name} is fine END and more"


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_six_opinions_and_a_grade(mode: str) -> None:
    rows = builtin_rows("llm-judge", limit=2)
    ran = run_suite("llm-judge", rows, reply, mode)
    judgments = [f"its {name} is fine" for name, _ in DIMENSIONS]
    assert ran.values == [{"grade": "B, well", "judgments": judgments}] * 2
    grading = [c for c in ran.calls if c["prompt"].endswith("Grade:")]
    judging = [c for c in ran.calls if not c["prompt"].endswith("Grade:")]
    assert (len(judging), len(grading)) == (12, 2)
    assert {(c["params"]["max_tokens"], *c["params"]["stop"]) for c in judging} == {(256, "END")}
    assert {c["params"]["max_tokens"] for c in grading} == {2}
    for call in grading:
        for (name, _), judgment in zip(DIMENSIONS, judgments):
            assert f"\n{name}: {judgment}\n" in call["prompt"]
    for row in rows:
        assert sum(row.arguments["article"] in c["prompt"] for c in ran.calls) == 7


def test_a_line_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "articles.jsonl").write_text('"An essay."\n{"a": 1}\n" "\nhello\n', "utf-8")
    problems = [row.problem for row in builtin_rows("llm-judge", folder=tmp_path)]
    assert [p.partition(": ")[0].rpartition(":")[2] for p in problems] == ["", "2", "3", "4"]
