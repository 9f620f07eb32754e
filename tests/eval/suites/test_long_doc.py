"""Long documents: rows by paper, samples of whole papers, answers by yes and no."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.suite_runs import builtin_rows, run_both

from sgc.eval.documents import cut, sample_documents
from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions, Row
from sgc.eval.suites.long_doc import DOCUMENT_CHARS
from sgc_ir.errors import EvalDataError


def test_questions_of_a_paper_share_what_stands_before_them() -> None:
    rows = builtin_rows("long-doc")
    assert len(rows) == 15
    assert {row.expected for row in rows} == {"Yes", "No"}
    records, calls = run_both(
        "long-doc", rows[:3], lambda prompt, params: "", select=lambda prompt, choices: [0.0, 1.0]
    )
    assert [record["value"] for record in records] == ["No"] * 3
    shared = calls[0]["prompt"].partition("Question:")[0]
    assert len(shared) > 1000
    assert all(call["prompt"].startswith(shared) for call in calls)
    score = find_suite("long-doc").score
    assert score is not None
    scores = [score(row, record) for row, record in zip(rows, records)]
    assert [s.value for s in scores if s] == [float(row.expected == "No") for row in rows[:3]]


def test_a_sample_takes_whole_documents_and_a_larger_one_takes_more() -> None:
    rows = [Row(f"{n}", {}, group=f"paper {n // 3}") for n in range(30)]
    samples = [sample_documents(rows, limit, 5) for limit in range(31)]
    for limit, sample in enumerate(samples):
        assert len(sample) == limit
        assert len({row.group for row in sample}) == -(-limit // 3)
        assert sample == [row for row in rows if row in sample]
        assert set(sample_ids(samples[limit - 1])) <= set(sample_ids(sample)) or limit == 0
    assert sample_documents(rows, None, 0) == rows
    assert sample_ids(sample_documents(rows, 6, 1)) != sample_ids(sample_documents(rows, 6, 2))


def sample_ids(rows: list[Row]) -> list[str]:
    return [row.id for row in rows]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("ab cd", "ab cd"),
        ("ab cd ef", "ab cd"),
        ("abc defg", "abc"),
        ("abcdefgh", "abcde"),
    ],
)
def test_a_text_is_cut_between_words(text: str, expected: str) -> None:
    assert cut(text, 5) == expected


def test_broken_papers_are_rows_and_long_ones_are_cut(tmp_path: Path) -> None:
    asked = [{"question": "Is it?", "answer": "yes"}]
    section = {"name": "One", "text": "word " * 9000}
    papers = [
        {"id": "a", "title": "Long", "sections": [section], "questions": asked},
        {"title": "T", "sections": [], "questions": [{"question": "Is it?", "answer": "perhaps"}]},
        {"title": "T", "sections": ["no name"], "questions": asked},
        {"title": "T", "questions": asked},
    ]
    path = tmp_path / "qasper.jsonl"
    path.write_text("\n".join(map(json.dumps, papers)), "utf-8")
    rows = find_suite("long-doc").load(tmp_path, LoadOptions())
    assert (rows[0].id, rows[0].expected, rows[0].problem) == ("a/0", "Yes", "")
    assert DOCUMENT_CHARS - 5 <= len(rows[0].arguments["document"]) <= DOCUMENT_CHARS
    assert [f"qasper.jsonl:{n}" in row.problem for n, row in enumerate(rows[1:], 2)] == [True] * 3
    assert "question 1" in rows[1].problem
    path.write_text('{"title": "T", "questions": []}\n', "utf-8")
    with pytest.raises(EvalDataError, match="'sections'"):
        find_suite("long-doc").load(tmp_path, LoadOptions())
