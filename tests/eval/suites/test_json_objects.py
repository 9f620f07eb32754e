"""JSON decoding: what is asked, what counts as an object, which rows there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.suite_runs import builtin_rows, run_both

from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions, Row
from sgc.eval.suites.json_objects import CHARACTER, CITY, PAGE_CHARS
from sgc_ir.errors import EvalDataError
from sgc_ir.params import SamplingParams

HERO = {
    "name": "Luna Lovegood",
    "house": "Ravenclaw",
    "blood status": "Pure-blood",
    "occupation": "student",
    "wand": {"wood": "yew", "core": "hair", "length": 10.5},
    "alive": "Alive",
    "patronus": "hare",
    "bogart": "none",
}
TOWN = {
    "name": "Porto",
    "country": "Portugal",
    "latitude": 41.15,
    "population": 232000,
    "top 3 landmarks": ["bridge", "tower", "lodges"],
}


def written(data: dict[str, object]) -> str:
    """One field a line, as the programs write it."""
    lines = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in data.items())
    return "{\n" + lines + "\n}"


@pytest.mark.parametrize(
    ("name", "pattern", "data"), [("json", CHARACTER, HERO), ("json-city", CITY, TOWN)]
)
def test_an_object_is_one_call_and_scored_by_being_whole(
    name: str, pattern: str, data: dict[str, object]
) -> None:
    assert re.fullmatch(pattern, written(data))
    rows = builtin_rows(name, limit=2)
    records, calls = run_both(name, rows, lambda prompt, params: written(data))
    assert [call["params"]["regex"] for call in calls] == [pattern, pattern]
    assert [call["params"]["max_tokens"] for call in calls] == [256, 256]
    assert json.loads(records[0]["value"]) == data
    score = find_suite(name).score
    assert score is not None
    whole, part = score(rows[0], records[0]), score(rows[0], {"value": written(data)[:-3]})
    assert whole is not None
    assert part is not None
    assert (whole.value, part.value) == (1.0, 0.0)


def test_fields_are_five_calls_whose_values_stand_in_a_form() -> None:
    values = [json.dumps(value) for value in TOWN.values()]

    def reply(prompt: str, params: SamplingParams) -> str:
        return values[prompt.count('": ') - 1]

    rows = builtin_rows("json-fields", limit=2)
    records, calls = run_both("json-fields", rows, reply)
    assert sorted(call["params"]["max_tokens"] for call in calls) == [8] * 8 + [24] * 2
    assert [record["value"] for record in records] == [written(TOWN)] * 2
    assert records[0]["vars"]["population"] == "232000"


def test_pages_about_something_else_are_left_out_and_long_ones_cut(tmp_path: Path) -> None:
    pages = [
        {"kind": "place", "document": "word " * 5000},
        {"kind": "person", "document": "a life"},
        {"document": "a place of a file without kinds"},
        {"kind": "place", "document": 7},
    ]
    lines = [json.dumps(page) for page in pages] + ["{not JSON"]
    (tmp_path / "questions.jsonl").write_text("\n".join(lines), "utf-8")
    rows = find_suite("json-city").load(tmp_path, LoadOptions())
    texts = [row.arguments.get("document", "") for row in rows]
    assert PAGE_CHARS - 5 <= len(texts[0]) <= PAGE_CHARS
    assert texts[0].endswith("word")
    assert texts[1:] == ["a place of a file without kinds", "", ""]
    assert ["questions.jsonl:4" in row.problem for row in rows] == [False, False, True, False]
    assert "questions.jsonl:5" in rows[3].problem


def test_a_file_or_field_that_lacks_is_named(tmp_path: Path) -> None:
    def message(name: str) -> str:
        with pytest.raises(EvalDataError) as caught:
            find_suite(name).load(tmp_path, LoadOptions())
        return str(caught.value)

    assert "dataset.txt" in message("json")
    assert "*.jsonl" in message("json-city")
    (tmp_path / "articles.jsonl").write_text('{"text": "a"}\n', "utf-8")
    assert "'document'" in message("json-fields")


def test_names_are_lines(tmp_path: Path) -> None:
    (tmp_path / "dataset.txt").write_text("Ada \n\nBob\n", "utf-8")
    rows = find_suite("json").load(tmp_path, LoadOptions())
    assert rows == [Row("0", {"name": "Ada"}), Row("1", {"name": "Bob"})]
