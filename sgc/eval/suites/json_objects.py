"""JSON decoding: an object as a whole by one regex, or field by field.

`json` is about a character of a novel, `json-city` and `json-fields` about the place that a page of
an encyclopedia describes. Names, quotes and braces are forced text, the model fills in the values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, find_files, make_rows, read_jsonl, read_lines, sample_rows
from sgc.eval.documents import cut
from sgc.eval.suite import LoadOptions, Row, Score, Suite

WORDS = r'"[\w\d\s]{1,16}"'
DEGREES = r"-?(0|[1-9][0-9]?)\.[0-9]{1,2}"
COUNT = r"[1-9][0-9]{0,8}"
SIGHTS = rf"\[{WORDS}, {WORDS}, {WORDS}\]"
PAGE_CHARS = 12_000  # about 3,000 tokens of English text


def one_of(*words: str) -> str:
    """A regex for one of these words in quotes."""
    return '"(' + "|".join(words) + ')"'


def object_of(fields: Mapping[str, str]) -> str:
    """A regex for an object with these fields in this order, one a line, each by its regex."""
    lines = ",\\n".join(f'    "{name}": {value}' for name, value in fields.items())
    return r"\{\n" + lines + r"\n\}"


WAND = rf'\{{"wood": {WORDS}, "core": {WORDS}, "length": [1-9][0-9]?\.[0-9]{{1,2}}\}}'
CHARACTER = object_of(
    {
        "name": WORDS,
        "house": one_of("Gryffindor", "Slytherin", "Ravenclaw", "Hufflepuff"),
        "blood status": one_of("Pure-blood", "Half-blood", "Muggle-born"),
        "occupation": one_of("student", "teacher", "auror", "ministry of magic", "death eater"),
        "wand": WAND,
        "alive": one_of("Alive", "Deceased"),
        "patronus": WORDS,
        "bogart": WORDS,
    }
)
CITY = object_of(
    {
        "name": WORDS,
        "country": WORDS,
        "latitude": DEGREES,
        "population": COUNT,
        "top 3 landmarks": SIGHTS,
    }
)


@sgc.function
def json_character(s: Any, name: str) -> Any:
    """The object about a character."""
    s += f"{name} is a character of Harry Potter. Write what is known of this character as JSON.\n"
    s += sgc.gen("json", regex=CHARACTER, max_tokens=256)
    return s["json"]


@sgc.function
def json_city(s: Any, document: str) -> Any:
    """The object about a place, by one regex."""
    s += "Take what is asked for from a page of an encyclopedia.\n\nPage:\n" + document
    s += "\nEnd of the page.\n\nThe place that it describes, as JSON:\n"
    s += sgc.gen("json", regex=CITY, max_tokens=256)
    return s["json"]


@sgc.function
def json_fields(s: Any, document: str) -> Any:
    """The object about a place; the program writes the form, five calls the values."""
    s += "Take what is asked for from a page of an encyclopedia.\n\nPage:\n" + document
    s += "\nEnd of the page.\n\nThe place that it describes, as JSON:\n"
    with s.var_scope("json"):
        s += '{\n    "name": ' + sgc.gen("name", regex=WORDS, max_tokens=8)
        s += ',\n    "country": ' + sgc.gen("country", regex=WORDS, max_tokens=8)
        s += ',\n    "latitude": ' + sgc.gen("latitude", regex=DEGREES, max_tokens=8)
        s += ',\n    "population": ' + sgc.gen("population", regex=COUNT, max_tokens=8)
        s += ',\n    "top 3 landmarks": ' + sgc.gen("sights", regex=SIGHTS, max_tokens=24)
        s += "\n}"
    return s["json"]


def load_characters(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each name, one a line."""
    rows = make_rows(
        read_lines(folder / "dataset.txt"),
        lambda index, record: Row(str(index), {"name": record.data.strip()}),
    )
    return sample_rows(rows, options.limit, options.seed)


def load_pages(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each page about a place, cut behind its first 12,000 characters."""
    records = [
        record
        for path in find_files(folder, "*.jsonl")
        for record in read_jsonl(path, fields=("document",))
        if record.problem or record.data.get("kind", "place") == "place"
    ]
    return sample_rows(make_rows(records, _page), options.limit, options.seed)


def _page(index: int, record: Record) -> Row:
    document = record.data["document"]
    if not isinstance(document, str) or not document.strip():
        raise ValueError("the document is no text")
    return Row(str(index), {"document": cut(document, PAGE_CHARS)})


def score(row: Row, output: Mapping[str, Any]) -> Score:
    """1 for text that is JSON; not for an object that was cut off at the limit of tokens."""
    try:
        json.loads(output["value"], strict=False)  # `\\s` allows line breaks in strings
    except ValueError:
        return Score(0.0)
    return Score(1.0)


def _suite(name: str, program: str, notes: str, **values: Any) -> Suite:
    return Suite(
        name=name,
        title="JSON decoding",
        program=program,
        **values,
        score=score,
        metric="share of whole JSON objects",
        defaults={"temperature": 0.0, "parallel": 64},
        notes=notes,
    )


CHARACTERS = {
    "folder": "json_jump_forward",
    "load": load_characters,
    "files": ("json_jump_forward/dataset.txt",),
}
PAGES = {"folder": "wiki", "load": load_pages, "files": ("wiki/*.jsonl",)}
_PAGES_NOTE = (
    "Pages are cut at 12,000 characters, about the 3,000 tokens of the published script; pages of "
    'another `kind` than "place" are left out. '
)
_TRUTH_NOTE = "Whether the values are true is not scored. Requests are in our own words."
SUITES = (
    _suite("json", "json_character", _TRUTH_NOTE, **CHARACTERS),
    _suite("json-city", "json_city", _PAGES_NOTE + _TRUTH_NOTE, **PAGES),
    _suite(
        "json-fields",
        "json_fields",
        _PAGES_NOTE
        + "A value that does not end within its 8 tokens (landmarks: 24) stays cut off, as "
        "published, and breaks its object. " + _TRUTH_NOTE,
        **PAGES,
    ),
)
