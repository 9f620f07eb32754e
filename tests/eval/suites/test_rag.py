"""Retrieval-augmented answers: what is found, what is shown, what is scored."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.suite_runs import builtin_rows, run_both

from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions, Row, Score

pytest.importorskip("bm25s", reason="bm25s is not installed (pip install 'sgc[eval]')")

from sgc.eval.retrieval import PassageSearch
from sgc_ir.errors import EvalDataError
from sgc_ir.params import SamplingParams

TEXTS = ["Owls hunt mice at night.", "Salt is mined in the mountains.", "Bees gather nectar."]


def write(folder: Path, passages: list[Any], questions: list[Any]) -> None:
    for name, rows in (("passages", passages), ("questions", questions)):
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines), "utf-8")


def score_of(row: Row, value: str) -> Score:
    score = find_suite("rag").score
    assert score is not None
    result = score(row, {"value": value})
    assert result is not None
    return result


def test_the_passage_with_the_words_of_a_question_comes_first() -> None:
    found = PassageSearch(TEXTS).best(["Where is salt mined?", "What do bees gather?"], 2)
    assert [numbers[0] for numbers in found] == [1, 2]
    assert all(len(set(numbers)) == 2 for numbers in found)


def test_a_search_needs_passages_and_gives_no_more_than_there_are() -> None:
    assert sorted(PassageSearch(TEXTS).best(["owls"], 9)[0]) == [0, 1, 2]
    assert sorted(PassageSearch(TEXTS).best(["???"], 3)[0]) == [0, 1, 2]
    assert PassageSearch(TEXTS).best([], 3) == []
    with pytest.raises(EvalDataError, match="no passages"):
        PassageSearch([" "])


def test_without_the_library_only_this_suite_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(EvalDataError, match=r"pip install 'sgc\[eval\]'"):
        builtin_rows("rag")


def test_most_questions_find_their_passage_and_examples_are_not_asked() -> None:
    rows = builtin_rows("rag")
    assert [row.id for row in rows] == [f"q{number:02}" for number in range(4, 20)]
    assert sum(row.expected["found"] for row in rows) >= 15
    assert all(len(row.arguments["passages"]) == 3 for row in rows)
    asked = [row.arguments["question"] for row in rows]
    assert not any(question in rows[0].arguments["examples"] for question in asked)
    more = builtin_rows("rag", shots=0)
    assert (len(more), more[0].arguments["examples"]) == (20, "")


def test_the_answer_follows_a_thought_about_the_passages() -> None:
    def reply(prompt: str, params: SamplingParams) -> str:
        return " because so\nno" if prompt.endswith("Reasoning:") else " 940\nQuestion:"

    rows = builtin_rows("rag", limit=2)
    records, calls = run_both("rag", rows, reply)
    assert [record["value"] for record in records] == ["940", "940"]
    last = next(c["prompt"] for c in calls if c["prompt"].endswith("Answer:"))
    assert last.endswith("Reasoning: because so\nAnswer:")
    assert any(all(text in c["prompt"] for text in rows[0].arguments["passages"]) for c in calls)


def test_exact_match_and_f1_are_over_all_answers() -> None:
    row = Row("1", {}, {"answers": ["the 23 years", "23"], "found": False})
    exact = score_of(row, "23 Years.")
    assert (exact.value, dict(exact.detail)) == (1.0, {"f1": 1.0, "passage_found": 0.0})
    near = score_of(row, "about 23 years")
    assert near.value == 0.0
    assert near.detail["f1"] == pytest.approx(0.8)


def test_a_broken_question_is_a_row_and_a_broken_passage_stops(tmp_path: Path) -> None:
    good = {"question": "Where is salt mined?", "answers": ["mountains"]}
    passages: list[Any] = [{"text": text} for text in TEXTS]
    write(tmp_path, passages, [good, {"question": "No answers?", "answers": []}, "{", good])
    rows = find_suite("rag").load(tmp_path, LoadOptions(shots=0))
    assert [bool(row.problem) for row in rows] == [False, True, True, False]
    assert "questions.jsonl:2" in rows[1].problem
    assert rows[0].expected == {"answers": ["mountains"]}
    assert "passages.jsonl:4" in refusal(tmp_path, [*passages, {"title": "no text"}], [good])
    assert "too few to show 4" in refusal(tmp_path, passages, [good])
    assert "'answers'" in refusal(tmp_path, passages, [{"question": "a"}])
    assert "'text'" in refusal(tmp_path, [{"title": "a"}], [good])


def refusal(folder: Path, passages: list[Any], questions: list[Any]) -> str:
    write(folder, passages, questions)
    with pytest.raises(EvalDataError) as caught:
        find_suite("rag").load(folder, LoadOptions())
    return str(caught.value)
