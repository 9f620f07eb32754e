"""Right and wrong texts of regexes and JSON Schemas, spelled token by token under the masks.

The long tests read `cases/regex_cases.jsonl`, `cases/json_schema_cases.jsonl` and
`data/jsonschema/maskbench_sample.jsonl` of the folder that SGC_SHARED names (default: `shared`
beside the repository); SGC_TOKENIZERS names more tokenizers (GGUF files or directories, with `:`
between them).
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.json_style import written
from support.reachable import Speller, in_legal_order
from support.tokenizer import KINDS, save_directory

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError
from sgc_runtime.models import DEFAULT_MODEL, resolve
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

SHARED = Path(os.environ.get("SGC_SHARED", Path(__file__).resolve().parents[4] / "shared"))
STYLES = ("compact", "spaced", "pretty")
CHECKER = Draft202012Validator.FORMAT_CHECKER

OWN_REGEXES: list[dict[str, Any]] = [
    {"regex": "a{2,3}", "accept": ["aa", "aaa"], "reject": ["", "a", "aaaa", "aa\n"]},
    {"regex": r"\w+é?", "accept": ["été", "日本", "٣"], "reject": ["", "e-", "é\u0301\u0301x"]},
    {"regex": "日本語|日本酒", "accept": ["日本語", "日本酒"], "reject": ["日本", "日本語酒"]},
    {"regex": "(?!.*bb)[ab]*", "accept": ["", "abab"], "reject": ["abba", "bb"]},
    {"regex": r"(?i)stra\u00dfe", "accept": ["STRAßE", "straße"], "reject": ["STRASSE"]},
    {"regex": "a$b|a(?!.)b", "accept": [], "reject": ["ab"]},
    {"regex": ".[^a].", "accept": ["😀\n日", "bbb"], "reject": ["\nbb", "bab"]},
]
OWN_SCHEMAS: list[dict[str, Any]] = [
    {"schema": {"type": "integer", "minimum": 7}, "valid": [7, 12], "invalid": [6, -8, 7.5, "7"]},
    {"schema": {"not": {"type": "string"}}, "valid": [1, [], {}], "invalid": ["", "a"]},
    {
        "schema": {
            "type": "object",
            "properties": {"a": {"type": "string", "maxLength": 2}, "b": {"enum": [1, "日"]}},
            "required": ["b"],
            "additionalProperties": False,
        },
        "valid": [{"a": 'é"', "b": 1}, {"b": "日"}, {"a": "", "b": "日"}],
        "invalid": [{"a": "éèê", "b": 1}, {"a": "é"}, {"b": 2}, {"b": 1, "c": 1}, {}],
    },
    {
        "schema": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        "valid": [[], [[], [[]]]],
        "invalid": [[[], [], []], 1, [1]],
    },
    {"schema": {"type": "string", "pattern": "b+"}, "valid": ["abc"], "invalid": ["ac", ""]},
    {"schema": {"allOf": [{"minimum": 3}, {"maximum": 2}], "type": "number"}, "valid": [],
     "invalid": [2, 3]},
]  # fmt: skip


class Tally:
    """How cases end: exact, refused by name, or wrong."""

    def __init__(self, spellers: list[Speller], seed: int = 0) -> None:
        self._spellers = spellers
        self._rng = random.Random(seed)
        self.ends: Counter[str] = Counter()
        self.wrong: list[tuple[str, str]] = []

    def add(self, name: str, make: Callable[[], Automaton], *texts: Any) -> None:
        """One case; `texts`: what is to be reachable, and what is not, for an automaton."""
        try:
            automaton = make()
            right, wrong = [list(of(automaton)) for of in texts]
            faults = [f"not reached: {text!r}" for text in right if not self._all(automaton, text)]
            faults += [f"reached: {text!r}" for text in wrong if self._any(automaton, text)]
        except ConstraintError as error:
            faults = []
            if error.kind == "unsatisfiable":
                faults = [f"refused for {text!r}" for text in texts[0](None)]
            self.ends[error.kind] += not faults
        else:
            self.ends["exact"] += not faults
        self.ends["wrong"] += bool(faults)
        self.wrong += [(name, fault) for fault in faults]

    def _all(self, automaton: Automaton, text: str) -> bool:
        return all(s.reached(automaton, text, self._rng) == {True} for s in self._spellers)

    def _any(self, automaton: Automaton, text: str) -> bool:
        return any(s.reached(automaton, text, self._rng) != {False} for s in self._spellers)

    @property
    def exact(self) -> int:
        """Cases that are answered exactly; an empty language, exactly so by its refusal."""
        return self.ends["exact"] + self.ends["unsatisfiable"]


def add_regex(tally: Tally, case: dict[str, Any]) -> None:
    tally.add(
        case["regex"],
        lambda: regex_automaton(case["regex"]),
        lambda _: case["accept"],
        lambda _: case["reject"],
    )


def add_schema(tally: Tally, case: dict[str, Any], style: str) -> None:
    """Instances as `json.dumps` writes them; raw texts where they are in the style's form."""

    def valid(automaton: Automaton | None) -> Iterator[str]:
        yield from (written(value, style) for value in case["valid"])
        yield from (t for t in case.get("valid_text", ()) if _in_style(t, style))

    def invalid(automaton: Automaton) -> Iterator[str]:
        yield from (written(value, style) for value in case["invalid"])
        yield from case.get("invalid_text", ())

    tally.add(f"{style} {case['schema']}", lambda: _of_schema(case, style), valid, invalid)


def add_sample(tally: Tally, case: dict[str, Any], style: str) -> None:
    """A schema that people wrote, with instances in any order of their members.

    Those count whose mark in the file and `jsonschema` agree: the marks are of several drafts, and
    the validator checks some formats (date-time, uri) only where other packages are installed.
    """
    validator = Draft202012Validator(case["schema"], format_checker=CHECKER)

    def of(kind: bool) -> Callable[[Automaton | None], Iterator[str]]:
        def texts(automaton: Automaton | None) -> Iterator[str]:
            for test in case["tests"]:
                value = test["data"]
                if validator.is_valid(value) == test["valid"] == kind:
                    yield "" if automaton is None else in_legal_order(automaton, value, style)

        return texts

    tally.add(case["id"], lambda: _of_schema(case, style), of(True), of(False))


def _of_schema(case: dict[str, Any], style: str) -> Automaton:
    return schema_automaton(case["schema"], style)


def _in_style(text: str, style: str) -> bool:
    """Whether the blanks of a JSON text are those of the style."""
    found = "".join(part for at, part in enumerate(text.split('"')) if at % 2 == 0)
    if style == "compact":
        return " " not in found and "\n" not in found
    if style == "spaced":
        return all(found.count(c) == found.count(c + " ") for c in ",:") and "\n" not in found
    return not set("{}[],: ") & set(found)


def read_lines(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"the cases are not here: {name}")
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def large() -> list[Speller]:
    """The default model's tokenizer, 256 bytes, and those that the environment names."""
    more = [path for path in os.environ.get("SGC_TOKENIZERS", "").split(":") if path]
    found = [load_tokenizer(path) for path in [resolve(DEFAULT_MODEL), *map(Path, more)]]
    return [Speller(None), *map(Speller, found)]


def test_own_cases(tmp_path: Path) -> None:
    spellers = [Speller(None)]
    for kind in KINDS:
        if kind.name in ("smollm", "gemma"):
            folder = tmp_path / kind.name
            save_directory(kind, folder)
            spellers.append(Speller(load_tokenizer(folder)))
    tally = Tally(spellers)
    for case in OWN_REGEXES:
        add_regex(tally, case)
    for case in OWN_SCHEMAS:
        for style in STYLES:
            add_schema(tally, case, style)
    assert not tally.wrong
    assert tally.exact == len(OWN_REGEXES) + len(STYLES) * len(OWN_SCHEMAS)


@pytest.mark.long
@pytest.mark.model
def test_handed_regexes(large: list[Speller]) -> None:
    tally = Tally(large)
    cases = read_lines("cases/regex_cases.jsonl")
    for case in cases:
        assert all(ord(c) < 0xD800 or ord(c) > 0xDFFF for t in case["accept"] for c in t)
        add_regex(tally, case)
    print(tally.ends)
    assert not tally.wrong
    assert tally.exact >= len(cases) - 7


@pytest.mark.long
@pytest.mark.model
@pytest.mark.parametrize("style", STYLES)
def test_handed_schemas(large: list[Speller], style: str) -> None:
    tally = Tally(large)
    cases = read_lines("cases/json_schema_cases.jsonl")
    for case in cases:
        add_schema(tally, case, style)
    print(tally.ends)
    assert not tally.wrong
    assert tally.exact >= len(cases) - 7


@pytest.mark.long
@pytest.mark.model
@pytest.mark.timeout(1800)
def test_schemas_that_people_wrote(large: list[Speller]) -> None:
    tally = Tally(large)
    for case in read_lines("data/jsonschema/maskbench_sample.jsonl"):
        add_sample(tally, case, "spaced")
    print(tally.ends)
    assert not tally.wrong
