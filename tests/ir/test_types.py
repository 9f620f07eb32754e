"""Types of arguments: written as text, checked, converted from cells."""

from __future__ import annotations

import collections.abc
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.types import annotation_to_text, check_value, convert_text, is_canonical, parse_type

WRITTEN: list[tuple[Any, str]] = [
    (str, "str"),
    (int, "int"),
    (float, "float"),
    (bool, "bool"),
    (bytes, "bytes"),
    (None, "None"),
    (list, "list"),
    (list[str], "list[str]"),
    (dict[str, list[int]], "dict[str, list[int]]"),
    (tuple[int, str], "tuple[int, str]"),
    (tuple[int, ...], "tuple[int, ...]"),
    (int | None, "int | None"),
    (typing.Optional[str], "str | None"),  # noqa: UP045 - the old spelling is the case
    (typing.Union[int, str, int], "int | str"),  # noqa: UP007
    (typing.List[int], "list[int]"),  # noqa: UP006
    (collections.abc.Sequence[str], "list[str]"),
    (collections.abc.Mapping[str, int], "dict[str, int]"),
    (typing.Literal["a", 'b"', 3, True, None], 'Literal["a", "b\\"", 3, True, None]'),
    (typing.Annotated[int, "meta"], "int"),
    ("list[str]", "list[str]"),
    ("Optional[int]", "int | None"),
    ("typing.Sequence[float]", "list[float]"),
    ("'int'", "int"),
    (Any, ""),
    (int | Any, ""),
    (object, ""),
    (complex, ""),
    (set[int], ""),
    (typing.Callable[[int], int], ""),
    (collections.OrderedDict, ""),
    ("Foo", ""),
    ("__import__('os')", ""),
    ("list[", ""),
    ("Literal[{[]: 1}]", ""),
    ("int | " * 300 + "int", ""),
    (3, ""),
]


@pytest.mark.parametrize(("annotation", "text"), WRITTEN)
def test_annotations_become_text(annotation: Any, text: str) -> None:
    assert annotation_to_text(annotation) == text
    assert annotation_to_text(text) == text
    assert not text or is_canonical(text)


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ("", [1, "a", None, object()], []),
        ("str", ["", "a"], [1, None, b"a"]),
        ("int", [0, -3, 10**30], [1.0, True, "1", None]),
        ("float", [0.5, 3, float("nan")], [True, "1"]),
        ("bool", [True, False], [0, 1, "true"]),
        ("None", [None], [0, ""]),
        ("list", [[], [1, "a"], (1,)], ["ab", {}, None]),
        ("list[int]", [[], [1, 2], (1,)], [[1, "a"], [True], 1]),
        ("dict[str, int]", [{}, {"a": 1}], [{"a": "b"}, {1: 1}, [], [("a", 1)]]),
        ("tuple[int, str]", [(1, "a"), [1, "a"]], [(1,), (1, "a", 2), ("a", 1)]),
        ("tuple[int, ...]", [(), (1, 2), [3]], [("a",), 1]),
        ("int | None", [None, 3], ["", 1.5, False]),
        ("list[int | list[str]]", [[1, ["a"]]], [[["a", 1]]]),
        ('Literal["a", 1]', ["a", 1], ["b", True, 1.0]),
    ],
)
def test_values_are_checked(text: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        check_value(value, text)
    for value in bad:
        with pytest.raises(ValueError, match="expected "):
            check_value(value, text)


@pytest.mark.parametrize(
    ("value", "text", "message"),
    [
        ("x", "int", "expected int, got str 'x'"),
        ([1, True], "list[int]", "[1]: expected int, got bool True"),
        ({"a": {"b": 1}}, "dict[str, dict[str, str]]", "['a']: ['b']: expected str, got int 1"),
        ("x" * 99, "bool", "..."),
    ],
)
def test_messages_say_where(value: Any, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_value(value, text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize(
    ("cell", "text", "value"),
    [
        ("3", "", "3"),
        ("3", "str", "3"),
        (" 3 ", "int", 3),
        ("-7", "int", -7),
        ("3", "float", 3.0),
        ("1e3", "float", 1000.0),
        ("True", "bool", True),
        ("false", "bool", False),
        ("0", "bool", False),
        ("", "None", None),
        ('["a", "b"]', "list[str]", ["a", "b"]),
        ('{"k": [1]}', "dict[str, list[int]]", {"k": [1]}),
        ('[1, "a"]', "tuple[int, str]", [1, "a"]),
        ("", "int | None", None),
        ("null", "int | None", None),
        ("4", "int | None", 4),
        ("", "str | None", ""),
        ("null", "str | None", None),
        ("1", "bool | int", 1),
        ("true", "bool | int", True),
        ("1.5", "int | float", 1.5),
        ("x", "int | str", "x"),
        ("a", 'Literal["a", "b"]', "a"),
        ("2", "Literal[1, 2]", 2),
        ("é", "bytes", "é".encode()),
    ],
)
def test_cells_are_converted(cell: str, text: str, value: Any) -> None:
    converted = convert_text(cell, text)
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ("x", "int"),
        ("1_000", "int"),
        ("1.0", "int"),
        ("", "int"),
        ("1_0.5", "float"),
        ("yes", "bool"),
        ("x", "None"),
        ("[1", "list"),
        ("[1]", "list[str]"),
        ("3", "list[int]"),
        ("{}", "list"),
        ("c", 'Literal["a", "b"]'),
        ("x", "int | float"),
        ("[" * 100_000, "list"),
    ],
)
def test_cells_that_do_not_fit_are_refused(cell: str, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        convert_text(cell, text)


@given(st.text(max_size=30))
def test_any_text_is_a_type_or_refused(text: str) -> None:
    try:
        form = parse_type(text)
    except ValueError:
        assert annotation_to_text(text) == ""
    else:
        assert parse_type(str(form)) == form or str(form) == "Any"


def test_types_nest_and_are_bounded() -> None:
    deep = "list[" * 60 + "int" + "]" * 60
    assert annotation_to_text(deep) == deep
    with pytest.raises(ValueError, match="longer than"):
        parse_type("list[int] | " * 200 + "str")
    with pytest.raises(ValueError, match="not a type"):
        parse_type("-" * 900 + "1")
