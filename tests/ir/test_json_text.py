"""JSON texts that Python's reader would take, or drop without a word, are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.json_text import read_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_json_is_read(value: Any) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NaN", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("1e999", "1e999 is larger than any float"),
        ('{"a": [{"b": -1e400}]}', "larger than any float"),
        ('{"a": 1, "b": 2, "a": 1}', "the name 'a' stands twice"),
        ("9" * 5000, "an integer of 5000 digits is too long"),
        ("[" * 100_000, "nested too deeply"),
        ("{", "Expecting property name"),
        ("", "Expecting value"),
    ],
)
def test_what_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as info:
        read_json(text)
    assert "\n" not in str(info.value)
