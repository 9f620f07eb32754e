"""JSON texts, read strictly: what Python's reader would let pass, or drop without a word, is
refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def read_json(text: str) -> Any:
    """The value of a JSON text.

    Raises ValueError, in one line, for what is no JSON, NaN and Infinity, numbers larger than any
    float, names that stand twice in an object, and what is nested too deeply.
    """
    try:
        return json.loads(text, **STRICT)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def refuse_constant(name: str) -> NoReturn:
    """For `parse_constant` of a JSON reader: NaN and Infinity are not JSON. Raises ValueError."""
    raise ValueError(f"{name} is not JSON")


def finite_float(text: str) -> float:
    """For `parse_float` of a JSON reader. Raises ValueError where the value would be infinite."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is larger than any float")
    return value


def short_integer(text: str) -> int:
    """For `parse_int` of a JSON reader. Raises ValueError for more digits than Python reads."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"an integer of {len(text)} digits is too long to read") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {twice!r} stands twice in an object")
    return members


# Arguments of a `json.JSONDecoder` that reads strictly.
STRICT: dict[str, Any] = {
    "parse_constant": refuse_constant,
    "parse_float": finite_float,
    "parse_int": short_integer,
    "object_pairs_hook": _distinct,
}
