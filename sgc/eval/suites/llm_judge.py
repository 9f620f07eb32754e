"""LLM judge by branch, solve, merge (arXiv 2310.15123): six opinions at once, then one grade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, make_rows, read_jsonl, sample_rows
from sgc.eval.suite import LoadOptions, Row, Suite

DIMENSIONS = (
    ("Clarity", "how easily a reader follows what the essay wants to say"),
    ("Originality", "whether the essay has thoughts of its own and does not repeat phrases"),
    ("Evidence", "whether claims are supported by facts and examples, and these are right"),
    ("Relevance", "whether every part of the essay belongs to its subject"),
    ("Coherence", "whether the parts follow from each other and lead to the conclusion"),
    ("Language", "whether words, grammar and tone fit the subject and the reader"),
)
SYSTEM = (
    "You judge essays fairly. You read an essay, judge it along one dimension at a time, and at "
    "last sum the judgments up in one grade."
)


@sgc.function
def llm_judge(s: Any, article: str) -> Any:
    """The six judgments and the grade."""
    s += SYSTEM + "\n\nHere is the essay:\n" + article + "\n\n"
    judges = s.fork(len(DIMENSIONS))
    for judge, (name, meaning) in zip(judges, DIMENSIONS):  # noqa: B905 (both are six)
        judge += f"USER: Judge the essay along this dimension. {name}: {meaning}. "
        judge += "Write END behind your judgment.\nASSISTANT: Judgment:"
        judge += sgc.gen("judgment", max_tokens=256, stop="END")
    judgments = [judge["judgment"].strip() for judge in judges]
    s += "Here are the judgments:\n"
    for (name, _), judgment in zip(DIMENSIONS, judgments):  # noqa: B905 (both are six)
        s += f"{name}: {judgment}\n"
    s += "USER: Sum the judgments up in one grade from A (best) to F.\nASSISTANT: Grade:"
    s += sgc.gen("grade", max_tokens=2)
    return {"grade": s["grade"].strip(), "judgments": judgments}


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each line, which is one JSON text."""
    records = read_jsonl(folder / "articles.jsonl")
    return sample_rows(make_rows(records, _row), options.limit, options.seed)


def _row(index: int, record: Record) -> Row:
    if not isinstance(record.data, str) or not record.data.strip():
        raise ValueError("the line is no JSON text")
    return Row(str(index), {"article": record.data})


SUITE = Suite(
    name="llm-judge",
    title="LLM judge (branch, solve, merge)",
    program="llm_judge",
    folder="llm_judge",
    load=load,
    score=None,
    metric="",
    files=("llm_judge/articles.jsonl",),
    defaults={"temperature": 0.0, "parallel": 64},
    notes="No accuracy: the essays have no grades. The judges' words are our own; the published "
    "script runs 8 essays at a time.",
)
