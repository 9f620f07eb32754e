"""Constraints of gens against what their texts should be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.automaton_texts import texts_of
from support.regexes import accepts

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.compile import constraint_automaton, constraint_key
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams


def state(automaton: Automaton, text: str) -> int:
    return automaton.walk(automaton.start, text.encode())


def automaton_of(**params: Any) -> Automaton:
    return constraint_automaton(SamplingParams(**params))


@pytest.mark.parametrize(("dtype", "parse"), [("int", int), ("float", float)])
def test_numbers_go_on_behind_a_blank_only(dtype: str, parse: type) -> None:
    automaton = automaton_of(dtype=dtype)
    for text in ("0", "-17", "007", *(("2.50", "-0.5") if dtype == "float" else ())):
        parse(text)
        assert accepts(automaton, text)
        for more in (" apples", "\n\nThat is", " ", "\n"):
            assert accepts(automaton, text + more)
        assert state(automaton, text + "x") == DEAD
    for text in ("", "-", "+1", " 1", "1e5", "1.", ".5", "１"):
        assert not accepts(automaton, text)


def test_stops_that_are_held_back_end_a_number_as_text() -> None:
    automaton = automaton_of(dtype="int", min_tokens=2)
    assert automaton.is_final(state(automaton, "12 "))
    assert state(automaton, "12 a") == DEAD


def test_bools_are_two_words() -> None:
    automaton = automaton_of(dtype="bool")
    assert texts_of(automaton, automaton.start, 9) == [b"False", b"True"]


@given(st.text())
def test_strings_are_what_json_writes(text: str) -> None:
    automaton = automaton_of(dtype="str")
    for ascii_only in (True, False):
        assert accepts(automaton, json.dumps(text, ensure_ascii=ascii_only))


@given(st.from_regex(r'"([^"\\]|\\["\\/bfnrtu]|[dD89cCfF0-9]){0,12}"', fullmatch=True))
def test_strings_can_be_read(text: str) -> None:
    try:
        readable = json.loads(text).encode() is not None
    except (json.JSONDecodeError, UnicodeEncodeError):  # no JSON, or half of a surrogate pair
        readable = False
    assert accepts(automaton_of(dtype="str"), text) == readable


def test_each_kind_of_constraint_has_an_automaton() -> None:
    for params, legal in (
        ({"regex": "(?i)ab"}, "aB"),
        ({"json_schema": {"type": "array", "items": {"const": 1}}}, "[1, 1]"),
        ({"json_schema": {"enum": [[1, 2]]}, "json_style": "compact"}, "[1,2]"),
        ({"grammar": 'start: "a" start "b" | "c"'}, "aacbb"),
    ):
        automaton = automaton_of(**params)
        assert accepts(automaton, legal)
        assert not accepts(automaton, legal + "!")


def test_keys_are_equal_for_equal_constraints_alone() -> None:
    different: list[dict[str, Any]] = [
        {"regex": "a"},
        {"regex": "b"},
        {"grammar": "a"},
        {"dtype": "int"},
        {"dtype": "int", "min_tokens": 1},
        {"dtype": "bool"},
        {"json_schema": {"type": "object", "properties": {"a": True, "b": True}}},
        {"json_schema": {"type": "object", "properties": {"b": True, "a": True}}},
        {"json_schema": True},
        {"json_schema": True, "json_style": "compact"},
    ]
    keys = [constraint_key(SamplingParams(**p)) for p in different]
    assert len(set(keys)) == len(keys)
    for params, key in zip(different, keys, strict=True):
        assert constraint_key(SamplingParams(**params, temperature=0.3, max_tokens=7)) == key
    spaced = constraint_key(SamplingParams(json_schema=True, json_style="spaced"))
    assert spaced == constraint_key(SamplingParams(json_schema=True))


def test_what_is_no_constraint_or_no_data_is_refused() -> None:
    for function in (constraint_automaton, constraint_key):
        with pytest.raises(ValueError, match="no constraint"):
            function(SamplingParams(choices=("a", "b")))
    with pytest.raises(ConstraintError, match="JSON data"):
        constraint_key(SamplingParams(json_schema={"const": {1, 2}}))
