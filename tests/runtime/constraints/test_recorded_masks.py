"""Masks of arrays whose items differ, against every token tried."""

from __future__ import annotations

import json

import pytest
from support.masks import WORDS, check_walk, vocabularies

from sgc_ir.automata.schema.compile import schema_automaton

_CROSSING = '["|["a|","|","a|"a","a"|", "a|"a", "a|1,|1, 1|, 1|,1,1|}, {"|},{|"],["a|,\n  "a'.split(
    "|"
)
_STRINGS = {"type": "string"}
_ROWS = {"type": "object", "properties": {"a": _STRINGS, "b": {"type": "integer"}}}
DISTINCT = [
    (_STRINGS, '["ab", "a", "", "aab", "aabb"]', "spaced"),
    (_STRINGS, '["ab","a","","aab","aabb"]', "compact"),
    (_STRINGS, '[\n  "ab",\n  "a"\n]', "pretty"),
    ({"type": "integer"}, "[12, 1, -3, 123]", "spaced"),
    ({"type": "number"}, "[12,1,-3.5,1.25]", "compact"),
    ({**_ROWS, "additionalProperties": False}, '[{"a": "ab"}, {}, {"a": "b", "b": 12}]', "spaced"),
    ({"type": "string", "pattern": "^[ab]{1,2}$"}, '["ab", "a", "b", "aa", "bb", "ba"]', "spaced"),
    ({"anyOf": [{"const": "x1"}, {"type": "integer", "minimum": 7}]}, '["x1", 12, 7]', "spaced"),
    ({"type": "array", "items": _STRINGS, "uniqueItems": True}, '[["b", "a"], ["a"]]', "spaced"),
]


@pytest.mark.parametrize(("items", "text", "style"), DISTINCT, ids=range(len(DISTINCT)))
@pytest.mark.parametrize("most", [3, None], ids=["few items", "items"])
def test_masks_where_items_differ(
    items: dict[str, object], text: str, style: str, most: int | None
) -> None:
    schema: dict[str, object] = {"type": "array", "items": items, "uniqueItems": True}
    if most is not None:
        schema["maxItems"] = len(json.loads(text))
    vocabulary = vocabularies([*WORDS, *map(str.encode, _CROSSING)])[0]
    check_walk(schema_automaton(schema, style), vocabulary, text.encode(), 100)
