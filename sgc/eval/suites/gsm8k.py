"""GSM8K: grade-school maths in words, answered step by step after solved examples."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, read_jsonl, sample_rows
from sgc.eval.suite import Hub, LoadOptions, Row, Score, Suite
from sgc_ir.errors import EvalDataError

FIELDS = ("question", "answer")
MARK = "####"
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
SHOTS = 8


@sgc.function
def gsm8k(s: Any, examples: str, question: str) -> Any:
    s += examples
    s += f"Question: {question}\nAnswer:"
    s += sgc.gen("answer", max_tokens=256, stop="Question")
    return s["answer"]


def load(folder: Path, options: LoadOptions) -> list[Row]:
    shots = SHOTS if options.shots is None else options.shots
    examples = _examples(find_files(folder, "train*.jsonl")[0], shots) if shots else ""
    records = read_jsonl(folder / "test.jsonl", FIELDS)
    rows = make_rows(records, lambda _, record: _row(record, examples))
    return sample_rows(rows, options.limit, options.seed)


def _examples(path: Path, shots: int) -> str:
    records = [record for record in read_jsonl(path, FIELDS) if not record.problem]
    if len(records) < shots:
        raise EvalDataError(f"{path} has {len(records)} good rows; give a smaller --shots")
    shown = [record.data for record in records[:shots]]
    return "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in shown)


def _row(record: Record, examples: str) -> Row:
    if MARK not in record.data["answer"]:
        raise ValueError(f"the answer does not end in {MARK} and a number")
    arguments = {"examples": examples, "question": record.data["question"]}
    expected = last_number(record.data["answer"].rpartition(MARK)[2])
    if expected is None:
        raise ValueError(f"there is no number behind {MARK}")
    return Row(record.place.rpartition(":")[2], arguments, expected)


def last_number(text: str) -> float | None:
    """The last number in a text, without the commas in it."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def score(row: Row, record: Mapping[str, Any]) -> Score:
    head, mark, tail = record["value"].partition(MARK)
    number = last_number(tail.partition("\n")[0] if mark else head)
    return Score(float(number == row.expected), {"answered": float(number is not None)})


SUITE = Suite(
    name="gsm8k",
    title="GSM8K",
    program="gsm8k",
    folder="gsm8k",
    load=load,
    score=score,
    metric="accuracy, exact match of the number",
    files=("gsm8k/test.jsonl", "gsm8k/train*.jsonl"),
    defaults={"temperature": 0.0, "parallel": 64},
    notes=(
        "8 solved examples, the first rows of the training file (SGLang's script takes them from "
        f"the test file and asks them as well). The number behind {MARK} counts, else the last one."
    ),
    hub=Hub("openai/gsm8k", {"test.jsonl": "test", "train.jsonl": "train"}, config="main"),
)
