"""Retrieval-augmented question answering: the three best passages by BM25, a thought, an answer.

The loader searches, so that a row holds its passages and a run needs no index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.answers import exact_match, f1
from sgc.eval.data import Record, make_rows, read_jsonl, sample_rows
from sgc.eval.retrieval import PassageSearch
from sgc.eval.suite import LoadOptions, Row, Score, Suite
from sgc_ir.errors import EvalDataError

NUM_PASSAGES = 3
DEFAULT_SHOTS = 4
TASK = "Answer questions with short facts, in as few words as possible."


@sgc.function
def rag(s: Any, examples: str, passages: list[str], question: str) -> Any:
    """The answer, behind a thought about the passages."""
    s += TASK + "\n\n---\n\n" + examples
    s += "Context:\n"
    for number, passage in enumerate(passages):
        s += f"[{number + 1}] {passage}\n"
    s += f"Question: {question}\nReasoning:"
    s += sgc.gen("reasoning", max_tokens=64, stop="\n")
    s += "\nAnswer:" + sgc.gen("answer", max_tokens=24, stop="\n")
    return s["answer"].strip()


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each question behind those that are shown as examples."""
    passages = _passages(folder / "passages.jsonl")
    records = read_jsonl(folder / "questions.jsonl", fields=("question", "answers"))
    shots = DEFAULT_SHOTS if options.shots is None else options.shots
    shown = _examples(folder / "questions.jsonl", records[:shots], shots)
    rows = make_rows(records, _row)[shots:]
    rows = sample_rows(rows, options.limit, options.seed)
    return _with_passages(rows, passages, shown)


def _passages(path: Path) -> list[tuple[Any, str]]:
    """Number and text of each passage, its title before it."""
    records = read_jsonl(path, fields=("text",))
    for record in records:
        if record.problem:  # a passage that lacks changes what all questions find
            raise EvalDataError(record.problem)
    return [(r.data.get("passage_id"), _titled(r.data)) for r in records]


def _titled(data: Mapping[str, Any]) -> str:
    title = str(data.get("title", "")).replace("_", " ")
    return f"{title}: {data['text']}" if title else str(data["text"])


def _examples(path: Path, records: Sequence[Record], shots: int) -> str:
    if len(records) < shots:
        raise EvalDataError(f"{path}: {len(records)} rows are too few to show {shots}")
    for record in records:
        if record.problem:
            raise EvalDataError(record.problem)
    return "".join(
        f"Question: {r.data['question']}\nAnswer: {r.data['answers'][0]}\n\n---\n\n"
        for r in records
    )


def _row(index: int, record: Record) -> Row:
    data = record.data
    if not data["answers"]:
        raise ValueError("there are no answers")
    expected = {"answers": [str(answer) for answer in data["answers"]]}
    if "passage_id" in data:
        expected["passage"] = data["passage_id"]
    group = str(data.get("title", ""))
    return Row(str(data.get("id", index)), {"question": str(data["question"])}, expected, group)


def _with_passages(
    rows: Sequence[Row], passages: Sequence[tuple[Any, str]], examples: str
) -> list[Row]:
    asked = [row for row in rows if not row.problem]
    found = PassageSearch([text for _, text in passages]).best(
        [row.arguments["question"] for row in asked], NUM_PASSAGES
    )
    numbers = dict(zip((row.id for row in asked), found, strict=True))
    return [
        row if row.problem else _complete(row, [passages[n] for n in numbers[row.id]], examples)
        for row in rows
    ]


def _complete(row: Row, found: Sequence[tuple[Any, str]], examples: str) -> Row:
    texts = [text for _, text in found]
    arguments = {"examples": examples, "passages": texts, **row.arguments}
    expected = {key: row.expected[key] for key in ("answers",)}
    if "passage" in row.expected:
        expected["found"] = row.expected["passage"] in [number for number, _ in found]
    return replace(row, arguments=arguments, expected=expected)


def score(row: Row, output: Mapping[str, Any]) -> Score:
    """Exact match; beside it F1, and whether the right passage was among those found."""
    answers = row.expected["answers"]
    detail = {"f1": f1(output["value"], answers)}
    if "found" in row.expected:
        detail["passage_found"] = float(row.expected["found"])
    return Score(exact_match(output["value"], answers), detail)


SUITE = Suite(
    name="rag",
    title="Retrieval-augmented question answering",
    program="rag",
    folder="rag",
    load=load,
    score=score,
    metric="exact match",
    files=("rag/passages.jsonl", "rag/questions.jsonl"),
    defaults={"temperature": 0.0, "parallel": 64},
    notes="Three passages by BM25 (bm25s) and a thought before the answer, the shape of DSPy's "
    "introduction, which searches Wikipedia by ColBERT and asks HotPotQA; examples are shown "
    "without passages, as DSPy shows those that it has not worked out. F1 is beside exact match.",
)
