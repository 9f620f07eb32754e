"""`uniqueItems`: every short array of a few values, against the set of its members."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from support.json_style import written
from support.regexes import accepts

from sgc_ir.automata.schema.compile import schema_automaton
from sgc_ir.errors import ConstraintError


@pytest.mark.parametrize(
    ("items", "values"),
    [
        ({"enum": [1, "1", None, True]}, [1, "1", None, True]),
        ({"type": "integer"}, [1, 11, 111, -1]),
        ({"type": "integer", "minimum": 0, "maximum": 400}, [0, 1, 10, 400]),
        ({"anyOf": [{"enum": ["a", 5]}, {"type": "integer", "minimum": 3}]}, ["a", 5, 55, 3]),
        ({"type": ["boolean", "null"]}, [True, False, None]),
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


def test_one_item_at_most_needs_no_list() -> None:
    automaton = schema_automaton({"type": "array", "uniqueItems": True, "maxItems": 1})
    assert accepts(automaton, '[{"a": []}]')


def test_items_that_hold_the_array_again_are_refused_by_name() -> None:
    same = {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}}
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"oneOf": [same, {"type": "array", "items": {"type": "string"}}]})
    assert caught.value.kind == "unsupported"


@pytest.mark.parametrize(
    "schema",
    [
        {"uniqueItems": True},
        {"uniqueItems": True, "items": {"type": "number"}},
        {"uniqueItems": True, "items": {"enum": [1]}, "contains": {"const": 1}},
        {"not": {"uniqueItems": True}},
    ],
)
def test_what_cannot_be_told_apart_is_refused(schema: Any) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton(schema)
    assert caught.value.kind == "unsupported"
    assert caught.value.where.endswith("/uniqueItems")
