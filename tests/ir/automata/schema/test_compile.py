"""Schema automata against `jsonschema`: random schemas, random texts, instances near the schema."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir.automata.schema.schema_strategies import instances, schemas
from ir.automata.schema.schema_texts import accepts_in_some_order, random_text
from jsonschema import Draft202012Validator
from support.json_style import written
from support.regexes import accepts

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.schema.compile import schema_automaton, schema_digest
from sgc_ir.errors import ConstraintError
from sgc_ir.json_text import read_json

_CHECKER = Draft202012Validator.FORMAT_CHECKER


def _validator(schema: Any) -> Draft202012Validator:
    return Draft202012Validator(schema, format_checker=_CHECKER)


def _plain(value: Any) -> bool:
    """Whether every number in `value` is written as a plain decimal or integer."""
    if isinstance(value, float):
        return not value.is_integer() and "e" not in repr(value)
    if isinstance(value, list):
        return all(map(_plain, value))
    return not isinstance(value, dict) or all(map(_plain, value.values()))


def check_schema(schema: Any, values: list[Any], rng: random.Random) -> str:
    """Compare the automaton of `schema` with `jsonschema`; says how the compile ended."""
    validator = _validator(schema)
    try:
        automaton = schema_automaton(schema)
    except ConstraintError as error:
        if error.kind == "unsatisfiable":
            assert not any(validator.is_valid(value) for value in values), schema
        return error.kind
    for _ in range(5):
        text = random_text(automaton, rng)
        sample = json.loads(text)
        assert validator.is_valid(sample), (schema, text)
        values = [*values, sample]
    for value in filter(_plain, values):
        assert accepts_in_some_order(automaton, value) == validator.is_valid(value), (schema, value)
    return "compiled"


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.lists(instances, min_size=4, max_size=8), st.randoms(use_true_random=False))
def test_random_schemas_agree_with_jsonschema(
    schema: Any, values: list[Any], rng: random.Random
) -> None:
    assert check_schema(schema, values, rng) in ("compiled", "unsupported", "unsatisfiable")


RECORD = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "at": {"type": "object", "properties": {"x": {"type": "number"}}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("style", ["compact", "spaced", "pretty"])
@pytest.mark.parametrize(
    "value",
    [
        {"name": "é\n", "tags": [], "at": {}},
        {"name": "", "tags": ["a", "b"], "at": {"x": 1.5}},
        {"name": "q", "at": {"x": 2, "y": {"z": [[], [1, {}]]}}},
    ],
)
def test_styles_write_as_the_json_module(value: Any, style: str) -> None:
    automaton = schema_automaton(RECORD, style)
    assert accepts(automaton, written(value, style))
    for other in {"compact", "spaced", "pretty"} - {style}:
        assert not accepts(automaton, written(value, other))


@pytest.mark.parametrize("style", ["compact", "spaced", "pretty"])
def test_random_texts_of_any_value_are_in_the_style(style: str) -> None:
    automaton = schema_automaton(True, style)
    rng = random.Random(5)
    for _ in range(60):
        value = json.loads(random_text(automaton, rng))
        again = schema_automaton({"const": value} if _plain(value) else True, style)
        assert accepts(again, written(value, style)) or not _plain(value)


RECURSIVE = {
    "$defs": {
        "tree": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
            "required": ["v", "kids"],
            "additionalProperties": False,
        }
    },
    "$ref": "#/$defs/tree",
}


@pytest.mark.parametrize("style", ["spaced", "pretty"])
def test_recursion_is_not_bounded(style: str) -> None:
    value: dict[str, Any] = {"v": 0, "kids": []}
    for depth in range(40):
        value = {"v": depth, "kids": [value, value] if depth < 3 else [value]}
    assert accepts(schema_automaton(RECURSIVE, style), written(value, style))


def test_recursion_through_all_of_stays_finite() -> None:
    schema = {
        "$defs": {
            "a": {"properties": {"x": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}}},
            "b": {"properties": {"x": {"$ref": "#/$defs/b"}, "y": {"type": "integer"}}},
        },
        "type": "object",
        "$ref": "#/$defs/a",
    }
    automaton = schema_automaton(schema)
    assert accepts(automaton, written({"x": {"x": {"x": 3, "y": 1}}}))
    assert not accepts(automaton, written({"x": {"x": {"y": "1"}}}))


def test_branches_are_told_apart_while_one_of_them_refers_to_all() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    automaton = schema_automaton({"oneOf": [node, {"type": ["string", "null"]}]})
    assert accepts(automaton, '{"next": {"next": "a"}}')
    assert not accepts(automaton, '{"next": {"next": 1}}')


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"const": 5, "type": "string"}, "#"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "#"),
        ({"$defs": {"n": {"required": ["n"], "type": "object", "properties": {"n": {"$ref": "#"}}}},
          "$ref": "#/$defs/n"}, "#"),
        ({"type": "integer", "minimum": 3, "exclusiveMaximum": 4, "multipleOf": 2}, "#"),
        ({"type": "string", "pattern": "^a$", "minLength": 2}, "#"),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 3}, "#"),
        (False, "#"),
    ],
)  # fmt: skip
def test_schemas_without_a_value_are_refused(schema: Any, where: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton(schema)
    assert (caught.value.kind, caught.value.where) == ("unsatisfiable", where)


DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
_NODE = {"$dynamicAnchor": "node", "type": "array", "items": {"$dynamicRef": "#node"}}
TWO_NODES = {"$ref": "a", "$defs": {"a": {"$id": "a", **_NODE}, "b": {"$id": "b", **_NODE}}}


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"$ref": "#node", "$defs": {"a": _NODE}}, [[], [[], [[]]]], [1, [1]]),
        ({"$ref": "a", "$defs": {"a": {"$id": "a", **_NODE}}}, [[], [[[]]]], [[[1]]]),
        (
            {"$dynamicRef": "#x", "$ref": "#/$defs/b",
             "$defs": {"a": {"$anchor": "x", "minimum": 3}, "b": {"maximum": 5}}},
            [3, 5], [2, 6],
        ),
        ({**DRAFT_4, "type": "integer", "minimum": 3, "exclusiveMinimum": True}, [4], [3]),
        ({**DRAFT_4, "type": "integer", "minimum": 3, "exclusiveMinimum": False}, [3], [2]),
        (
            {"oneOf": [{"const": 1}, {"const": 2}], "discriminator": {"propertyName": "k"},
             "x-order": 1, "_note": "", "$comment": "", "contentMediaType": "a/b"},
            [1, 2], [3],
        ),
    ],
)  # fmt: skip
def test_references_by_dynamic_scope_old_bounds_and_annotations(
    schema: Any, right: list[Any], wrong: list[Any]
) -> None:
    automaton = schema_automaton(schema)
    assert all(accepts(automaton, written(value)) for value in right)
    assert not any(accepts(automaton, written(value)) for value in wrong)
    if "$schema" not in schema:
        assert all(map(_validator(schema).is_valid, right))
        assert not any(map(_validator(schema).is_valid, wrong))


@pytest.mark.parametrize(
    ("schema", "kind", "where"),
    [
        ({"properties": {"a/b": {"maxlength": 3}}}, "unsupported", "#/properties/a~1b/maxlength"),
        ({"unevaluatedProperties": False}, "unsupported", "#/unevaluatedProperties"),
        ({"items": {"format": "iri"}}, "unsupported", "#/items/format"),
        ({"$ref": "https://example.org/other"}, "unsupported", "#/$ref"),
        ({"anyOf": [{"$ref": "#/$defs/none"}]}, "malformed", "#/anyOf/0/$ref"),
        ({"allOf": [{"$ref": "#"}]}, "malformed", "#"),
        ({"type": "text"}, "malformed", "#/type"),
        ({"minLength": -1}, "malformed", "#/minLength"),
        ({"uniqueItems": True, "items": {"type": "object"}}, "unsupported", "#/uniqueItems"),
        ({"const": 5, "type": "string", "if": True, "strange": 1}, "unsupported", "#/strange"),
        ({"items": {"nullable": True}}, "unsupported", "#/items/nullable"),
        ({"discriminator": {"propertyName": "k"}}, "unsupported", "#/discriminator"),
        ({"divisibleBy": 3}, "unsupported", "#/divisibleBy"),
        ({"disallow": "null"}, "unsupported", "#/disallow"),
        ({"extends": {}}, "unsupported", "#/extends"),
        ({"$recursiveRef": "#"}, "unsupported", "#/$recursiveRef"),
        ({"minimum": 3, "exclusiveMinimum": True}, "malformed", "#/exclusiveMinimum"),
        ({**DRAFT_4, "exclusiveMaximum": True}, "malformed", "#/exclusiveMaximum"),
        (TWO_NODES, "unsupported", "#/$defs/a/items/$dynamicRef"),
        ({"$dynamicRef": "#none"}, "malformed", "#/$dynamicRef"),
        ({"definitions": 3}, "malformed", "#/definitions"),
        ({"$defs": {"a": True, "b/c": 3}}, "malformed", "#/$defs/b~1c"),
        ({"not": {"$defs": []}}, "malformed", "#/not/$defs"),
        ({"$schema": "foo"}, "unsupported", "#/$schema"),
        ({"$schema": "http://json-schema.org/draft-02/schema#"}, "unsupported", "#/$schema"),
        ({"$schema": "https://example.org/schema"}, "unsupported", "#/$schema"),
        ({"$schema": 3}, "unsupported", "#/$schema"),
    ],
)
def test_refusals_name_the_place(schema: Any, kind: str, where: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton(schema)
    assert (caught.value.kind, caught.value.where) == (kind, where)


def test_the_pattern_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConstraintError) as caught:
        schema_automaton({"properties": {"a": {"pattern": "(b"}}})
    assert (caught.value.kind, caught.value.where) == ("malformed", "#/properties/a/pattern")


def test_optional_members_grow_linearly() -> None:
    names = [f"k{i}" for i in range(300)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "additionalProperties": False,
    }
    automaton = schema_automaton(schema, "compact")
    assert accepts(automaton, written({"k0": 1, "k150": 2, "k299": 3}, "compact"))
    assert not accepts(automaton, written({"k150": 1, "k0": 2}, "compact"))
    assert automaton.num_states < 300


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (
            {"type": "object", "properties": {"a": {}}, "minProperties": 2},
            ['{"a": 1, "z": 2}', '{"a": 1, "z": 2, "z": 3}'],
            ['{"z": 1}', '{"z": 1, "z": 2}', '{"a": 1}'],
        ),
        (
            {"type": "object", "not": {"additionalProperties": {"type": "integer"}}},
            ['{"z": "x"}', '{"z": 1, "z": "x"}'],
            ['{"z": 1}', '{"z": "x", "z": 1}'],
        ),
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            ['{"a": 1, "z": 1, "z": 2}'],
            ['{"a": 1, "a": "x"}', r'{"a": 1, "\u0061": "x"}'],
        ),
    ],
)
def test_a_free_name_may_come_twice_where_the_last_value_is_valid(
    schema: Any, right: list[str], wrong: list[str]
) -> None:
    automaton = schema_automaton(schema)
    for text in right:
        assert accepts(automaton, text)
        assert _validator(schema).is_valid(json.loads(text))
    assert not any(accepts(automaton, text) for text in wrong)


def test_digests_tell_schemas_orders_and_styles_apart() -> None:
    one, other = {"a": {}, "b": {}}, {"b": {}, "a": {}}
    digests = {
        schema_digest({"properties": members}, style)
        for members in (one, other)
        for style in ("compact", "spaced")
    }
    assert len(digests) == 4
    assert schema_digest({"properties": one}, "compact") in digests


def test_what_is_written_is_read_strictly() -> None:
    automaton = schema_automaton({"type": "number"})
    rng = random.Random(3)
    for _ in range(200):
        assert isinstance(read_json(random_text(automaton, rng, 400)), int | float)


HOSTILE: dict[str, Any] = {
    "many constants": {"enum": [f"value {i}" for i in range(100_000)]},
    "many members": {"properties": {f"p{i}": {"type": "string"} for i in range(10_000)}},
    "chain of references": {
        "$defs": {
            **{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)},
            "d60": {"type": "integer"},
        },
        "$ref": "#/$defs/d0",
    },
    "tree of references": {
        "$defs": {
            **{
                f"d{i}": {"properties": {name: {"$ref": f"#/$defs/d{i + 1}"} for name in "lr"}}
                for i in range(60)
            },
            "d60": {"type": "integer"},
        },
        "$ref": "#/$defs/d0",
    },
    "long arrays": {"type": "array", "minItems": 10**9, "items": {"type": "integer"}},
    "long strings": {"type": "string", "minLength": 10**9},
    "long matches": {"type": "string", "minLength": 10**9, "pattern": "^[ab]*c"},
    "many contained": {"type": "array", "minContains": 10**9, "contains": {"type": "integer"}},
    "products": {
        "allOf": [
            {"anyOf": [{"properties": {f"a{i}": {"const": j}}} for j in range(8)]} for i in range(8)
        ]
    },
    "branches": {
        "oneOf": [
            {"properties": {"k": {"const": i}}, "required": ["k"], "type": "object"}
            for i in range(200)
        ]
    },
    "overlapping patterns": {
        "patternProperties": {f"^.*{letter}.*$": {"minimum": 1} for letter in "abcdefghijklmnop"}
    },
    "large steps": {"type": "integer", "multipleOf": 999_999_937, "minimum": 10, "maximum": 10**12},
}


def _compiled(schema: Any) -> Automaton | ConstraintError:
    try:
        return schema_automaton(schema)
    except ConstraintError as error:
        return error


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_soon(name: str) -> None:
    made = _compiled(HOSTILE[name])
    if isinstance(made, ConstraintError):
        assert made.kind == "limit"
    else:
        made.expand(made.start)


@pytest.mark.parametrize("depth", [100, 2000])
def test_deep_nesting_is_read_or_refused(depth: int) -> None:
    schema: Any = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    made = _compiled(schema)
    if isinstance(made, ConstraintError):
        assert depth > 200
        assert made.kind in ("limit", "malformed")
    else:
        assert accepts(made, "[" * depth + "1" + "]" * depth)


@pytest.mark.parametrize(
    "name",
    [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/schema#",
    ],
)
def test_known_dialects_are_read(name: str) -> None:
    automaton = schema_automaton({"$schema": name, "type": "integer"})
    assert [accepts(automaton, text) for text in ("12", "1.0", "x")] == [True, False, False]
