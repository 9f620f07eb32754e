"""Patterns that ECMA-262 has and Python has not, against Unicode's categories and by hand."""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.regexes import accepts

from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.automata.schema.ecma import python_pattern
from sgc_ir.automata.schema.python_schema import with_python_patterns
from sgc_ir.errors import ConstraintError

_CHARS = [chr(code) for code in (*range(0x3400), *range(0x3400, 0x110000, 97))]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("L", "L"),
        ("Letter", "L"),
        ("Lu", "Lu"),
        ("gc=Nd", "Nd"),
        ("digit", "Nd"),
        ("General_Category=Uppercase_Letter", "Lu"),
        ("punct", "P"),
        ("Cs", "Cs"),
        ("C", "C"),
        ("Cn", "Cn"),
        ("Zs", "Zs"),
    ],
)
def test_categories_are_unicodes(name: str, starts: str, negative: bool) -> None:
    kind = "P" if negative else "p"
    outside = re.compile(python_pattern(f"\\{kind}{{{name}}}"))
    inside = re.compile(python_pattern(f"[^\\{kind}{{{name}}}]"))
    for char in _CHARS:
        expected = unicodedata.category(char).startswith(starts) != negative
        assert (outside.fullmatch(char) is not None) == expected, char
        assert (inside.fullmatch(char) is None) == expected, char


def test_sets_that_are_no_category() -> None:
    texts = {name: re.compile(python_pattern(f"\\p{{{name}}}")) for name in ("Any", "ASCII", "LC")}
    assigned = re.compile(python_pattern(r"\p{Assigned}"))
    for char in _CHARS:
        category = unicodedata.category(char)
        assert texts["Any"].fullmatch(char)
        assert bool(texts["ASCII"].fullmatch(char)) == (ord(char) < 128)
        assert bool(texts["LC"].fullmatch(char)) == (category in ("Lu", "Ll", "Lt"))
        assert bool(assigned.fullmatch(char)) == (category != "Cn")


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"^\p{L}+$", ["é日x", "A"], ["a1", "", "_"]),
        (r"^[\p{L}\p{Nd}_-]{2}$", ["é1", "-_", "٣a"], ["a b", "a.", "a"]),
        (r"^[a-z-\p{Lu}]+$", ["a-É"], ["é", "A b"]),
        (r"^[^\p{L}]$", ["1", "-", " "], ["a", "日"]),
        (r"^(?<year>[0-9]{4})-(?<month>[0-9]{2})$", ["2024-05"], ["24-05", "2024"]),
        (r"^(?<=a)?(?<b>b)(?!c)$", ["b"], ["bc", "a"]),
        (r"^\cI\cj$", ["\t\n"], ["IJ", "cI"]),
        (r"^[\cA-\cZx]$", ["\x01", "\x1a", "x"], ["A", "c", "\x1b"]),
        (r"^\u{1F600}+$", ["😀", "😀😀"], ["😁", "u"]),
        (r"^[\u{1F600}-\u{1F610}\u{61}]$", ["😀", "😈", "a"], ["b", "{"]),
        (r"^a[^]b$", ["a\nb", "axb"], ["ab", "a"]),
        (r"^(a[]|\u{62})$", ["b"], ["a", "a]"]),
        (r"^\\p{1}\u{61}$", ["\\pa"], ["pa", "a"]),
        (r"^[[\u{61}&&b||]+$", ["[a&|b"], ["]", "c"]),
    ],
)
def test_patterns(pattern: str, right: list[str], wrong: list[str]) -> None:
    for schema in (
        {"type": "string", "pattern": pattern},
        {"propertyNames": {"pattern": pattern}, "type": "object"},
        {"enum": [*right, *wrong], "pattern": pattern},
        {"patternProperties": {pattern: {"type": "null"}}, "type": "object", "minProperties": 1},
    ):
        automaton = schema_automaton(schema)
        for text in (*right, *wrong):
            meets = text in right
            if "patternProperties" in schema:
                assert accepts(automaton, _text({text: None}))
                assert accepts(automaton, _text({text: 1})) != meets, (schema, text)
            else:
                value: Any = {text: 1} if "propertyNames" in schema else text
                assert accepts(automaton, _text(value)) == meets, (schema, text)


@pytest.mark.parametrize(
    ("pattern", "kind", "words"),
    [
        (r"\p{Script=Greek}", "unsupported", "'Script=Greek'"),
        (r"\p{Alphabetic}", "unsupported", "'Alphabetic'"),
        (r"(?<a>x)\k<a>", "unsupported", "a reference to a group"),
        (r"(?<=a+)b", "unsupported", "look-behind requires fixed-width pattern"),
        (r"[\p{L}-z]", "malformed", "a range begins or ends with a property"),
        (r"[+-\p{L}]", "malformed", "a range begins or ends with a property"),
        (r"\u{110000}", "malformed", "beyond the last code point"),
        (r"\P{Any}", "malformed", "no character"),
        (r"(?<>x)", "malformed", ""),
        (r"\cé", "malformed", "bad escape"),
        (r"[\p{L}", "malformed", ""),
        (r"(\p{L}", "malformed", "missing )"),
        (r"\u{x}", "malformed", "escape"),
        (r"(b", "malformed", "missing )"),
    ],
)
def test_refusals(pattern: str, kind: str, words: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"properties": {"a": {"pattern": pattern}}})
    assert (caught.value.kind, caught.value.where) == (kind, "#/properties/a/pattern")
    assert words in caught.value.reason


def test_negated_names_are_told_as_they_were_written() -> None:
    names = [{"not": {"patternProperties": {p: {"type": "null"}}}} for p in (r"\p{L}", r"\p{N}")]
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"type": "object", "allOf": names})
    assert caught.value.where == r"#/allOf/1/not/patternProperties/\p{N}"


def test_validators_get_patterns_that_they_can_read() -> None:
    word = {"type": "string", "pattern": r"^\p{L}+$"}
    schema = {
        "properties": {"pattern": word, "list": {"items": {"anyOf": [word, {"const": word}]}}},
        "patternProperties": {r"^\u{61}": {"not": word}},
        "additionalProperties": False,
    }
    validator = Draft202012Validator(with_python_patterns(schema))
    right = [{"pattern": "é"}, {"list": ["é", word]}, {"ab": "1"}]
    wrong = [{"pattern": "1"}, {"list": ["1"]}, {"ab": "é"}, {"b": 1}]
    assert [validator.is_valid(value) for value in right] == [True] * 3
    assert [validator.is_valid(value) for value in wrong] == [False] * 4
    plain = {"pattern": r"\d", "patternProperties": {"[a": True}, "default": {"pattern": r"\p{L}"}}
    assert with_python_patterns(plain) == plain
