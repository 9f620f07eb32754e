"""Tree of thought: the shape of both trees, and how leaves vote."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.suites import builtin_rows, run_suite

from sgc.eval.suite import Row
from sgc.eval.suites.tree_of_thought import ANSWER, CHECK, PLAN, SOLVE, last_integer, score
from sgc_ir.errors import EvalDataError

ROW = Row("0", {"question": "How many?"}, 7)


def of_level(prompt: str) -> str:
    """Which of the requests a prompt ends with."""
    last = prompt.split("<|im_start|>user\n")[-1]
    names = {"plan": PLAN, "solution": SOLVE, "check": CHECK, "answer": ANSWER}
    return next(name for name, text in names.items() if last.startswith(text))


@pytest.mark.parametrize(
    ("name", "levels", "temperature"),
    [
        ("tree-of-thought", {"plan": 2, "solution": 4, "check": 8, "answer": 16}, 0.001),
        ("tree-of-thought-3", {"plan": 3, "solution": 9, "check": 27}, 0.3),
    ],
)
def test_the_tree_has_the_published_shape(
    name: str, levels: dict[str, int], temperature: float
) -> None:
    def reply(prompt: str, params: Any) -> str:
        return f"{of_level(prompt)} of {len(prompt)}"

    ran = [run_suite(name, [ROW], reply, mode) for mode in ("compiled", "interpreted")]
    for r in ran:
        assert Counter(of_level(call["prompt"]) for call in r.calls) == levels
        assert {c["params"]["temperature"] for c in r.calls} == {temperature}
        assert {c["params"]["max_tokens"] for c in r.calls} == {256}
    assert ran[0].values == ran[1].values
    last = list(levels)[-1] if name == "tree-of-thought" else "solution"
    assert [text.split()[0] for text in ran[0].values[0]] == [last] * levels[last]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3 + 4 = 7.", 7),
        ("It costs $1,234.", 1234),
        ("10-3 is 7", 7),
        ("7 apples, or so", 7),
        ("none", None),
        ("", None),
    ],
)
def test_the_last_whole_number(text: str, number: int | None) -> None:
    assert last_integer(text) == number


def test_the_majority_is_scored_and_texts_without_a_number_do_not_vote() -> None:
    right = score(ROW, {"value": ["7", "8", "it is 7", "none"]})
    assert (right.value, right.detail) == (1.0, {"answer": 7, "agreement": 0.5})
    assert score(ROW, {"value": ["8", "7", "none", "none"]}).value == 0.0  # the first on ties
    assert score(ROW, {"value": ["none"] * 3}).value == 0.0


def test_questions_keep_their_answers_and_broken_ones_are_named(tmp_path: Path) -> None:
    lines = [
        {"question": "a", "answer": "1 + 1 = 2\n#### 1,200"},
        {"question": "b", "answer": "no end"},
        {"question": "c"},
    ]
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, lines)), "utf-8")
    rows = builtin_rows("tree-of-thought", folder=tmp_path)
    assert rows[0].expected == 1200
    assert [row.problem.partition(": ")[0].rpartition(":")[2] for row in rows] == ["", "2", "3"]


def test_a_missing_file_or_column_stops(tmp_path: Path) -> None:
    with pytest.raises(EvalDataError, match=r"test\.jsonl"):
        builtin_rows("tree-of-thought", folder=tmp_path)
    (tmp_path / "test.jsonl").write_text('{"question": "a"}\n', "utf-8")
    with pytest.raises(EvalDataError, match="'answer'"):
        builtin_rows("tree-of-thought", folder=tmp_path)
