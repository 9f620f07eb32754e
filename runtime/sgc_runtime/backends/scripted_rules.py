"""Constraints of the scripted backend: how far a reply keeps to its regex, schema or grammar."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import jsonschema
import regex

from sgc_ir.json_text import finite_float, refuse_constant
from sgc_runtime.backends.alphabet import representatives

INT = r"-?[0-9]+"
FLOAT = r"-?[0-9]+(\.[0-9]+)?"
STRING = r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
NUMBER_STOPS = (" ", "\n")


class Limit(NamedTuple):
    """How far a reply can be followed.

    Attributes:
        end: characters that keep to the constraint.
        complete: the constraint is satisfied there and cannot go on.
        reason: what is wrong behind `end`.
    """

    end: int
    complete: bool
    reason: str = ""


class Rule(Protocol):
    """A constraint."""

    def limit(self, reply: str) -> Limit: ...

    def accepts(self, text: str) -> bool: ...


class RegexRule:
    """The whole text matches a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = regex.compile(pattern)
        self._alphabet = representatives(pattern)

    def accepts(self, text: str) -> bool:
        return self._pattern.fullmatch(text) is not None

    def _viable(self, text: str) -> bool:
        return self._pattern.fullmatch(text, partial=True) is not None

    def limit(self, reply: str) -> Limit:
        low, high = 0, len(reply)
        while low < high:  # a prefix of a viable text is viable
            middle = (low + high + 1) // 2
            if self._viable(reply[:middle]):
                low = middle
            else:
                high = middle - 1
        text = reply[:low]
        complete = self.accepts(text) and not any(self._viable(text + c) for c in self._alphabet)
        return Limit(low, complete)


class JsonRule:
    """The text is one JSON value that a schema accepts."""

    def __init__(self, schema: Any) -> None:
        self._validator = jsonschema.validators.validator_for(schema)(schema)
        self._decoder = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_float)

    def accepts(self, text: str) -> bool:
        try:
            value, end = self._decoder.raw_decode(text)
        except (ValueError, RecursionError):
            return False
        return end == len(text) and self._validator.is_valid(value)

    def limit(self, reply: str) -> Limit:
        try:
            value, end = self._decoder.raw_decode(reply)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated string")
            return Limit(len(reply) if cut else error.pos, False, error.msg)
        except (ValueError, RecursionError) as error:
            return Limit(0, False, str(error))
        problem = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        if problem is not None:
            return Limit(end, False, f"{problem.message} (at {problem.json_path})")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return Limit(end, complete=not is_number)


DTYPES = {
    "int": f"(?:{INT})[ \n]?",
    "float": f"(?:{FLOAT})[ \n]?",
    "bool": "True|False",
    "str": STRING,
}


@lru_cache(maxsize=256)
def regex_rule(pattern: str) -> RegexRule:
    """The rule of a pattern, made once."""
    return RegexRule(pattern)
