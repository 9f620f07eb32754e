"""A schema whose patterns Python's `re` can read, for validators that search with it."""

from __future__ import annotations

import re
from typing import Any

from sgc_ir.automata.schema.document import MANY, NAMED, ONE
from sgc_ir.automata.schema.ecma import python_pattern
from sgc_ir.errors import ConstraintError


def with_python_patterns(schema: Any) -> Any:
    """`schema` with each pattern that only ECMA-262 has written in Python's dialect."""
    if not isinstance(schema, dict):
        return schema
    return {word: _value(word, value) for word, value in schema.items()}


def _value(word: str, value: Any) -> Any:
    if word == "pattern" and isinstance(value, str):
        return _readable(value)
    if word == "patternProperties" and isinstance(value, dict):
        return {_readable(name): with_python_patterns(part) for name, part in value.items()}
    if word in NAMED and isinstance(value, dict):
        return {name: with_python_patterns(part) for name, part in value.items()}
    if word in MANY and isinstance(value, list):
        return [with_python_patterns(part) for part in value]
    return with_python_patterns(value) if word in ONE else value


def _readable(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        try:
            return python_pattern(pattern)
        except ConstraintError:  # it stands where no value comes: the schema has been taken
            return pattern
    return pattern
