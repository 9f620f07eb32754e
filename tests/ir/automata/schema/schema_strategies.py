"""Random schemas, and random instances that are near to what they ask for."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "ab", "c d", "é", 'q"')
WORDS = ("", "a", "b", "ab", "abc", "1", "x1", "é", 'q"', "\n", "2024-02-29", "a@b.c", "127.0.0.1")
PATTERNS = ("^a", "b$", "^[a-c]*$", "[0-9]", "^(ab|x1)$", "a|b", "^.{2}$", "^[^a]*$", "(?=.*b)a")
FORMATS = ("date", "ipv4", "uuid", "email")

numbers = st.one_of(
    st.integers(-12, 12), st.sampled_from([0.5, -0.5, 2.5, 1.25, -3.75, 10.1]), st.just(100)
)
scalars = st.one_of(st.none(), st.booleans(), numbers, st.sampled_from(WORDS))
instances = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    ),
    max_leaves=8,
)
_sizes = st.integers(0, 4)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_number_schemas = _some(
    type=st.sampled_from(["number", "integer"]),
    minimum=numbers,
    maximum=numbers,
    exclusiveMinimum=numbers,
    exclusiveMaximum=numbers,
    multipleOf=st.sampled_from([1, 2, 3, 0.5, 0.25]),
)
_string_schemas = _some(
    type=st.just("string"),
    minLength=_sizes,
    maxLength=_sizes,
    pattern=st.sampled_from(PATTERNS),
    format=st.sampled_from(FORMATS),
)
_closed = st.one_of(
    st.builds(lambda values: {"enum": values}, st.lists(instances, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, instances),
    st.builds(
        lambda types: {"type": types},
        st.lists(
            st.sampled_from("null boolean integer number string array object".split()),
            min_size=1,
            max_size=3,
            unique=True,
        ),
    ),
)
_flat = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "string", "pattern": "^[a-c]*$", "maxLength": 2}),
    st.just({"type": "integer"}),
    st.just({"type": "number", "minimum": 0}),
    st.just({"type": ["string", "null", "integer"]}),
)
# Items that an automaton can tell apart: few scalars, or open values that have one text each.
_different = st.one_of(
    _flat,
    _flat.map(lambda item: {"type": "array", "items": item}),
    _flat.map(lambda item: {"type": "array", "items": item, "uniqueItems": True}),
    st.builds(
        lambda first, second: {
            "type": "object",
            "properties": {"b": first, "a": second},
            "additionalProperties": False,
        },
        _flat,
        _flat,
    ),
    st.builds(lambda values: {"enum": values}, st.lists(scalars, min_size=1, max_size=4)),
    st.builds(lambda low: {"type": "integer", "minimum": low, "maximum": low + 3}, numbers),
    st.just({"type": ["boolean", "null"]}),
)
leaves = st.one_of(st.booleans(), _closed, _number_schemas, _string_schemas)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(NAMES)
    objects = _some(
        type=st.just("object"),
        properties=st.dictionaries(names, inner, max_size=3),
        required=st.lists(names, max_size=2, unique=True),
        additionalProperties=inner,
        patternProperties=st.dictionaries(st.sampled_from(PATTERNS[:5]), inner, max_size=2),
        propertyNames=st.one_of(_string_schemas, st.just({"enum": ["a", "b"]})),
        minProperties=st.integers(0, 1),
        dependentRequired=st.dictionaries(
            names, st.lists(names, max_size=2, unique=True), max_size=1
        ),
    )
    counted = st.fixed_dictionaries(
        {
            "properties": st.dictionaries(names, inner, min_size=1, max_size=4),
            "additionalProperties": st.just(False),
        },
        optional={
            "type": st.just("object"),
            "minProperties": _sizes,
            "maxProperties": _sizes,
            "required": st.lists(names, max_size=1),
        },
    )
    arrays = _some(
        type=st.just("array"),
        items=inner,
        prefixItems=st.lists(inner, min_size=1, max_size=2),
        minItems=st.integers(0, 2),
        maxItems=_sizes,
        contains=inner,
        minContains=st.integers(0, 2),
        maxContains=_sizes,
    )
    unique = st.fixed_dictionaries(
        {"uniqueItems": st.just(True), "items": _different},
        optional={"minItems": st.integers(0, 3)},
    )
    several = st.lists(inner, min_size=1, max_size=3)
    combined = _some(
        allOf=several,
        anyOf=several,
        oneOf=several,
    )
    branching = st.one_of(
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner}, optional={"then": inner, "else": inner}),
    )
    together = st.builds(lambda first, second: {**first, **second}, objects, combined)
    plain = st.one_of(objects, counted, arrays)
    return st.one_of(plain, plain, plain, combined, together, unique, branching)


schemas = st.recursive(leaves, _containers, max_leaves=6)
