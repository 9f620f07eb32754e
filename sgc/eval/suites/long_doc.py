"""Long documents: yes or no questions about whole papers.

Question after question shares the paper before it, which is most of what there is to compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, read_jsonl
from sgc.eval.documents import cut, sample_documents
from sgc.eval.suite import LoadOptions, Row, Score, Suite

DOCUMENT_CHARS = 24_000  # about 6,000 tokens of English text
CHOICES = (" Yes", " No")


@sgc.function
def long_doc(s: Any, document: str, question: str) -> Any:
    """Yes or No."""
    s += "Read the paper, then answer the question about it with Yes or No.\n\n"
    s += f"{document}\n\nEnd of the paper.\n\nQuestion: {question}\nAnswer:"
    s += sgc.select("answer", CHOICES)
    return s["answer"].strip()


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each yes or no question of each paper; a paper is a group."""
    records = [
        record
        for path in find_files(folder, "*.jsonl")
        for record in read_jsonl(path, fields=("title", "sections", "questions"))
    ]
    rows = [row for index, record in enumerate(records) for row in _rows(index, record)]
    return sample_documents(rows, options.limit, options.seed)


def _rows(index: int, record: Record) -> list[Row]:
    problem = record.problem
    if not problem:
        try:
            return _questions(str(record.data.get("id", index)), record.data)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            problem = record.broken(f"{type(error).__name__}: {error}").problem
    return [Row(record.place, {}, group=record.place, problem=problem)]


def _questions(paper: str, data: Mapping[str, Any]) -> list[Row]:
    document = _document(data)
    rows = []
    for index, asked in enumerate(data["questions"]):
        answer = str(asked["answer"]).strip().capitalize()
        if answer not in ("Yes", "No"):
            raise ValueError(f"the answer of question {index + 1} is neither Yes nor No")
        arguments = {"document": document, "question": str(asked["question"])}
        rows.append(Row(f"{paper}/{index}", arguments, answer, paper))
    return rows


def _document(data: Mapping[str, Any]) -> str:
    parts = [str(data["title"]), str(data.get("abstract", ""))]
    parts += [f"{section['name']}\n{section['text']}" for section in data["sections"]]
    return cut("\n\n".join(part for part in parts if part), DOCUMENT_CHARS)


def score(row: Row, output: Mapping[str, Any]) -> Score:
    """1 for the right answer; `said_yes` tells of a model that always says the same."""
    answer = output["value"]
    return Score(float(answer == row.expected), {"said_yes": float(answer == "Yes")})


SUITE = Suite(
    name="long-doc",
    title="Questions about long documents",
    program="long_doc",
    folder="longdoc",
    load=load,
    score=score,
    metric="accuracy of yes or no",
    files=("longdoc/*.jsonl",),
    defaults={"temperature": 0.0, "parallel": 64},
    notes="The yes or no questions of QASPER. Papers are cut behind their first 24,000 characters, "
    "about 6,000 tokens, so what a question asks for may be missing; --limit takes whole papers.",
)
