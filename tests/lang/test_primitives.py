"""Records of what is appended: joining, validation, copies."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pydantic
import pytest

import sgc
from sgc.lang.primitives import Concat, Gen, Image, Role, Select, Video, is_symbolic
from sgc.lang.source import shown_file


class Symbol:
    _sgc_symbol = True

    def __eq__(self, other):
        raise TypeError("asked while tracing")

    __hash__ = None


def test_plus_keeps_the_order():
    g = sgc.gen("a")
    assert ("x" + g + 1 + sgc.select("b", ["p"])).parts == ("x", g, 1, sgc.select("b", ["p"]))
    assert (("x" + g) + ("y" + g)).parts == ("x", g, "y", g)
    assert sgc.user("a" + g) == Role("user", ("a", g))
    assert isinstance(sgc.system("a") + sgc.user("b"), Concat)


def test_only_what_was_given_is_kept():
    assert sgc.gen("a") == Gen("a", {})
    assert sgc.gen(max_tokens=3, stop="x").params == {"max_tokens": 3, "stop": "x"}
    assert sgc.gen("c", choices=["x", "y"]) == Select("c", ("x", "y"))
    assert sgc.gen("c", choices=iter("xy"), method="greedy_token_selection") == Select(
        "c", ("x", "y"), "greedy_token_selection"
    )


def test_records_are_frozen_copies():
    stops = ["a"]
    piece = sgc.gen("v", stop=stops)
    stops.append("b")
    assert piece.params["stop"] == ("a",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        piece.name = "other"


@pytest.mark.parametrize(
    "params",
    [
        {"max_tokens": -1},
        {"max_tokens": "3"},
        {"temperature": -0.5},
        {"top_p": 2.0},
        {"n": 0},
        {"regex": "("},
        {"json_schema": {"type": "nonsense"}},
        {"grammar": "start: ("},
        {"dtype": "complex"},
        {"stop": [""]},
        {"choices": []},
        {"choices": ["a", "a"]},
        {"regex": "a", "dtype": int},
        {"choices": ["a", "b"], "n": 2},
        {"choices": ["a", "b"], "n": Symbol()},
        {"regex": Symbol(), "grammar": 'start: "a"'},
        {"method": "greedy_token_selection"},
    ],
)
def test_bad_constants_are_refused_at_once_with_the_line(params):
    with pytest.raises(sgc.CompileError) as caught:
        sgc.gen("v", **params)
    assert caught.value.file == shown_file(__file__)
    assert caught.value.line is not None
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"regex": r"(a)\1"}, "gen 'v': regex: a back-reference is not supported"),
        ({"regex": "a(?!)"}, "gen 'v': regex: no text is legal"),
        ({"json_schema": {"items": {"type": "x"}}}, "gen 'v': json_schema: #/items/type: "),
        ({"json_schema": {"dependentSchemas": {}, "$dynamicRef": "#x"}}, "gen 'v': json_schema: #"),
        ({"grammar": "start: nothing"}, "gen 'v': grammar: "),
    ],
)
def test_constraints_are_refused_by_gen_and_place(params, words):
    with pytest.raises(sgc.CompileError) as caught:
        sgc.gen("v", **params)
    assert words in caught.value.reason
    assert caught.value.line is not None


@pytest.mark.parametrize("name", ["", 5, "_1", Symbol()])
def test_bad_names_are_refused(name):
    with pytest.raises(sgc.CompileError):
        sgc.gen(name)
    with pytest.raises(sgc.CompileError):
        sgc.select(name, ["a"])


def test_select_needs_good_choices_and_a_known_method():
    for bad in ({}, {"choices": []}, {"choices": ["a", "a"]}, {"choices": ["a"], "method": "x"}):
        with pytest.raises(sgc.CompileError, match="select"):
            sgc.select("v", **bad)


def test_symbols_pass_unvalidated():
    symbol = Symbol()
    piece = sgc.gen("v", max_tokens=symbol, stop=["a", symbol], temperature=0.5)
    assert piece.params["max_tokens"] is symbol
    assert piece.params["stop"][1] is symbol
    assert sgc.select("v", symbol).choices is symbol
    assert is_symbolic({"a": [(symbol,)]})
    assert not is_symbolic({"a": [1, "x"]})


def test_pydantic_models_and_dataclasses_are_schemas():
    class Person(pydantic.BaseModel):
        name: str

    @dataclasses.dataclass
    class Point:
        x: int

    assert sgc.gen("v", json_schema=Person).params["json_schema"] is Person
    assert sgc.gen("v", json_schema=Point).params["json_schema"] is Point


def test_nested_roles_are_refused():
    with pytest.raises(sgc.CompileError, match="nest"):
        sgc.user("a" + sgc.assistant("b"))


def test_media():
    assert sgc.image("a.png") == Image("a.png")
    assert sgc.image(Path("a.png")) == Image("a.png")
    assert sgc.video(bytearray(b"x"), 2) == Video(b"x", 2)
    for bad in (lambda: sgc.image(5), lambda: sgc.video("a", 0), lambda: sgc.video("a", True)):
        with pytest.raises(sgc.CompileError):
            bad()


def test_vote_is_the_majority_and_the_first_on_ties():
    assert sgc.vote(["a", "b", "b"]) == "b"
    assert sgc.vote(x for x in ("b", "a", "a", "b")) == "b"
    with pytest.raises(ValueError):
        sgc.vote([])
