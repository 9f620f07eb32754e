"""HellaSwag: how does the text go on? The likeliest of four endings, after solved examples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, read_jsonl, sample_rows
from sgc.eval.suite import Hub, LoadOptions, Row, Score, Suite
from sgc_ir.errors import EvalDataError

FIELDS = ("activity_label", "ctx", "endings", "label")
SHOTS = 20


@sgc.function
def hellaswag(s: Any, examples: str, context: str, endings: list[str]) -> Any:
    s += examples
    s += context
    s += sgc.select("ending", endings)
    return {"ending": s["ending"], "scores": s.meta("ending")["scores"]}


def load(folder: Path, options: LoadOptions) -> list[Row]:
    shots = SHOTS if options.shots is None else options.shots
    path = find_files(folder, "*val*.jsonl")[0]
    records = read_jsonl(path, FIELDS)
    shown = [record for record in records if not record.problem][:shots]
    places = {record.place for record in shown}
    asked = [record for record in records if record.place not in places]
    if not asked:
        raise EvalDataError(f"{path}: all {len(records)} rows are shown; give a smaller --shots")
    examples = "".join(_example(record) for record in shown)
    rows = make_rows(asked, lambda _, record: _row(record, examples))
    return sample_rows(rows, options.limit, options.seed)


def _context(record: Record) -> str:
    return f"{record.data['activity_label']}: {record.data['ctx']}"


def _example(record: Record) -> str:
    return f"{_context(record)} {record.data['endings'][record.data['label']]}\n\n"


def _row(record: Record, examples: str) -> Row:
    endings = [f" {ending}" for ending in record.data["endings"]]
    label = record.data["label"]
    if not isinstance(label, int) or not 0 <= label < len(endings):
        raise ValueError(f"the label is {label!r} and not the number of an ending")
    arguments = {"examples": examples, "context": _context(record), "endings": endings}
    line = record.place.rpartition(":")[2]
    return Row(line, arguments, endings[label])


def score(row: Row, record: Mapping[str, Any]) -> Score:
    return Score(float(record["value"]["ending"] == row.expected))


SUITE = Suite(
    name="hellaswag",
    title="HellaSwag",
    program="hellaswag",
    folder="hellaswag",
    load=load,
    score=score,
    metric="accuracy, the ending with the highest mean log-probability of its tokens",
    files=("hellaswag/*val*.jsonl",),
    defaults={"temperature": 0.0, "parallel": 64},
    notes=(
        "20 solved examples, the first rows of the file, which are not asked (SGLang's script asks "
        "them as well). Published figures mostly divide by characters instead of tokens."
    ),
    hub=Hub(
        "Rowan/hellaswag",
        {"hellaswag_val.jsonl": "validation"},
        convert=lambda row: {**row, "label": int(row["label"])},
    ),
)
