"""MMLU: multiple choice in 57 subjects, with solved questions of the same subject before each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, read_csv, sample_rows
from sgc.eval.suite import Hub, LoadOptions, Row, Score, Suite

LETTERS = ("A", "B", "C", "D")
COLUMNS = ("question", *LETTERS, "answer")
SHOTS = 5


@sgc.function
def mmlu(s: Any, examples: str, question: str) -> Any:
    s += examples
    s += question
    s += sgc.select("answer", [" A", " B", " C", " D"])
    return {"answer": s["answer"].strip(), "scores": s.meta("answer")["scores"]}


def load(folder: Path, options: LoadOptions) -> list[Row]:
    shots = SHOTS if options.shots is None else options.shots
    rows: list[Row] = []
    for path in find_files(folder, "test/*_test.csv"):
        subject = path.stem.removesuffix("_test")
        examples = _examples(folder / "dev" / f"{subject}_dev.csv", subject, shots)
        records = read_csv(path, COLUMNS, header=False)
        rows += make_rows(records, lambda i, r, s=subject, e=examples: _row(s, i, r, e))  # type: ignore[misc]
    return sample_rows(rows, options.limit, options.seed)


def _examples(path: Path, subject: str, shots: int) -> str:
    name = subject.replace("_", " ")
    text = f"The following are multiple choice questions (with answers) about {name}.\n\n"
    records: Sequence[Record] = read_csv(path, COLUMNS, header=False) if shots else ()
    for record in [record for record in records if not record.problem][:shots]:
        text += f"{_question(record)} {record.data['answer']}\n\n"
    return text


def _question(record: Record) -> str:
    choices = "".join(f"{letter}. {record.data[letter]}\n" for letter in LETTERS)
    return f"{record.data['question']}\n{choices}Answer:"


def _row(subject: str, index: int, record: Record, examples: str) -> Row:
    answer = record.data["answer"].strip()
    if answer not in LETTERS:
        raise ValueError(f"the answer is {answer!r} and not one of A, B, C, D")
    arguments = {"examples": examples, "question": _question(record)}
    return Row(f"{subject}/{index}", arguments, answer, group=subject)


def score(row: Row, record: Mapping[str, Any]) -> Score:
    return Score(float(record["value"]["answer"] == row.expected))


SUITE = Suite(
    name="mmlu",
    title="MMLU",
    program="mmlu",
    folder="mmlu",
    load=load,
    score=score,
    metric="accuracy, the likeliest letter",
    files=("mmlu/dev/*_dev.csv", "mmlu/test/*_test.csv"),
    defaults={"temperature": 0.0, "parallel": 64},
    notes=(
        "5 solved questions of the subject's dev file. The letter is selected by its probability, "
        "where SGLang's script generates one token; examples are never dropped for their length. "
        "The score is the mean over all questions, not over subjects."
    ),
    hub=Hub(
        "cais/mmlu",
        {"test/{subject}_test.csv": "test", "dev/{subject}_dev.csv": "dev"},
        config="all",
        convert=lambda row: [row["question"], *row["choices"], LETTERS[row["answer"]]],
    ),
)
