"""`uniqueItems`: every short array of a few values, against the set of its members."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from support.json_style import written
from support.regexes import accepts

from sgc_ir.automata.automaton import DEAD
from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError

PAIR = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("items", "values"),
    [
        ({"enum": [1, "1", None, True]}, [1, "1", None, True]),
        ({"type": "integer"}, [1, 11, 111, -1]),
        ({"type": "integer", "minimum": 0, "maximum": 400}, [0, 1, 10, 400]),
        ({"anyOf": [{"enum": ["a", 5]}, {"type": "integer", "minimum": 3}]}, ["a", 5, 55, 3]),
        ({"type": ["boolean", "null"]}, [True, False, None]),
        ({"type": "string"}, ["", "a", "aa", 'q"\\\né']),
        ({"type": "number"}, [0, 1, -1, 1.5, 15]),
        ({"type": ["string", "null", "integer"]}, ["1", 1, None, "null"]),
        ({"type": "string", "pattern": "^[ab]$"}, ["a", "b"]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1], [11], [1, 1]]),
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, [[], ["a", "b"]]),
        (PAIR, [{}, {"a": "x"}, {"a": "x", "b": 1}, {"b": 1}]),
        ({"anyOf": [PAIR, {"type": "array", "items": PAIR}]}, [{"a": ""}, [{"a": ""}], []]),
    ],
)
def test_all_arrays_of_up_to_three_items(items: Any, values: list[Any]) -> None:
    automaton = schema_automaton({"type": "array", "items": items, "uniqueItems": True})
    for size in range(4):
        for chosen in product(values, repeat=size):
            differ = len({written(value) for value in chosen}) == size
            assert accepts(automaton, written(list(chosen))) == differ, chosen


def test_the_first_items_may_have_schemas_of_their_own() -> None:
    schema = {
        "type": "array",
        "prefixItems": [{"enum": [1, 2]}, {"enum": [1]}],
        "items": {"enum": [1, 2, 3]},
        "minItems": 2,
        "uniqueItems": True,
    }
    automaton = schema_automaton(schema)
    assert accepts(automaton, "[2, 1, 3]")
    assert not accepts(automaton, "[1, 1]")
    assert not accepts(automaton, "[2, 1, 2]")
    assert automaton.walk(automaton.start, b"[1") == -1  # the second item could not follow


def test_open_first_items_may_have_schemas_of_their_own() -> None:
    schema = {
        "prefixItems": [{"type": "string"}, {"enum": ["a", "b"]}],
        "items": {"type": ["string", "integer"]},
        "type": "array",
        "minItems": 2,
        "uniqueItems": True,
    }
    automaton = schema_automaton(schema)
    assert accepts(automaton, '["a", "b", 1, "c", "1"]')
    assert not accepts(automaton, '["a"]')
    assert not accepts(automaton, '["a", "a"]')
    assert not accepts(automaton, '["a", "b", 1, "b"]')
    assert automaton.walk(automaton.start, b'["a", "a') == DEAD


def test_values_that_are_equal_have_one_text() -> None:
    numbers = {"type": "array", "items": {"enum": [1, 2.5]}, "uniqueItems": True}
    for items in ({"type": "number"}, {"anyOf": [{"enum": [1, 2.50, 1e-7]}, {"minimum": 0.5}]}):
        automaton = schema_automaton({**numbers, "items": {"type": "number", **items}})
        for text in ("[1.0]", "[1e0]", "[2.50]", "[-0]", "[2.5, 25e-1]", "[1e-07, 0.0000001]"):
            assert not accepts(automaton, text)
    strings = schema_automaton({**numbers, "items": {"type": "string"}})
    assert accepts(strings, '["a", "\\n"]')
    for text in (r'["\u0061"]', r'["a", "\u0061"]', r'["\u000a"]', r'["\/"]'):
        assert not accepts(strings, text)


def test_items_run_out_where_few_texts_are_legal() -> None:
    items = {"type": "string", "pattern": "^[ab]c?$"}
    automaton = schema_automaton({"type": "array", "items": items, "uniqueItems": True})
    state = automaton.walk(automaton.start, b'["a", "bc", "ac"')
    assert automaton.step(state, ord(",")) != DEAD
    assert automaton.walk(state, b', "bc') == DEAD
    assert automaton.forced(automaton.walk(state, b', "b"')) == (
        b"]",
        automaton.walk(state, b', "b"]'),
    )


def test_many_items_take_little() -> None:
    automaton = schema_automaton(
        {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    )
    words = [f"word {number}" for number in range(400)]
    state = automaton.walk(automaton.start, written(words)[:-1].encode())
    assert automaton.num_states < 8000
    assert automaton.walk(state, b', "word 17"') == DEAD
    assert automaton.walk(state, b', "word 400"') != DEAD
    automaton.keep([state])
    assert automaton.walk(state, b', "word 399"') == DEAD
    assert automaton.is_final(automaton.walk(state, b', "word"]'))


def test_no_more_items_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sgc_ir.automata.schema.emit_recorded.MOST_ITEMS", 3)
    automaton = schema_automaton(
        {"items": {"type": "string"}, "type": "array", "uniqueItems": True}
    )
    state = automaton.walk(automaton.start, b'["a", "b", "c"')
    assert [(low, high) for low, high, _ in automaton.ways(state)] == [(ord("]"), ord("]"))]


def test_one_item_at_most_needs_no_list() -> None:
    automaton = schema_automaton({"type": "array", "uniqueItems": True, "maxItems": 1})
    assert accepts(automaton, '[{"a": []}]')


def test_items_may_hold_the_array_again_beside_others() -> None:
    tree = {
        "type": "object",
        "properties": {
            "n": {"type": "string"},
            "k": {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}},
        },
        "additionalProperties": False,
    }
    automaton = schema_automaton(tree)
    once = '{"n": "x", "k": [{"n": "x"}, {"n": "y", "k": [{"n": "x"}]}, {}, {"k": []}'
    assert accepts(automaton, once + "]}")
    for again in ('{"n": "y", "k": [{"n": "x"}]}', "{}", '{"k": []}', '{"k": [{}, {}]}'):
        assert not accepts(automaton, f"{once}, {again}]}}")
    assert accepts(automaton, once + ', {"n": "y", "k": [{"n": "x"}, {}]}]}')


def test_items_that_hold_the_array_again_are_refused_by_name() -> None:
    same = {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}}
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"oneOf": [same, {"type": "array", "items": {"type": "string"}}]})
    assert caught.value.kind == "unsupported"


TURNED = {**PAIR, "properties": dict(reversed(PAIR["properties"].items()))}


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"uniqueItems": True, "items": {"type": "object"}},
        {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}},
        {"uniqueItems": True, "items": {"type": "array", "items": {"propertyNames": {}}}},
        {"uniqueItems": True, "items": {"type": "number", "minimum": 1e20}},
        {"uniqueItems": True, "items": {"anyOf": [PAIR, TURNED]}},
        {"uniqueItems": True, "items": {"type": "string"}, "minItems": 5000},
        {"uniqueItems": True, "items": {"enum": [1]}, "contains": {"const": 1}},
        {"not": {"uniqueItems": True}},
    ],
)
def test_what_cannot_be_told_apart_is_refused(schema: Any) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton(schema)
    assert caught.value.kind == "unsupported"
    assert caught.value.where.endswith("/uniqueItems")
