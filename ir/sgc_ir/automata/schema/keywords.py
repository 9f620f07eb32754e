"""Keywords of JSON Schema, draft-7 and 2020-12: which say nothing, and how values are checked."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from sgc_ir.errors import ConstraintError

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

# Keywords that a validator takes no notice of. Those of the second half come from no draft; common
# editors and registries write them.
ANNOTATIONS = frozenset(
    (
        "$schema $id $anchor $dynamicAnchor $comment $vocabulary id title "
        "description default examples deprecated readOnly writeOnly contentMediaType "
        "contentEncoding contentSchema "
        "example markdownDescription deprecationMessage enumNames enumDescriptions "
        "markdownEnumDescriptions defaultSnippets errorMessage patternErrorMessage "
        "doNotSuggest suggestSortText allowComments allowTrailingCommas self "
        "xml externalDocs"
    ).split()
)

# Keywords that one handler reads together, by the name of the handler.
GROUPS = {
    "$defs": "definitions",
    "definitions": "definitions",
    "properties": "members",
    "patternProperties": "members",
    "additionalProperties": "members",
    "prefixItems": "elements",
    "items": "elements",
    "additionalItems": "elements",
    "contains": "contains",
    "minContains": "contains",
    "maxContains": "contains",
    "if": "condition",
    "then": "condition",
    "else": "condition",
    "dependentRequired": "dependent",
    "dependentSchemas": "dependent",
    "dependencies": "dependent",
}


class EndlessError(ConstraintError):
    """A schema that refers to itself for one value."""

    def __init__(self, where: str) -> None:
        reason = "the schema refers to itself without an end; mend the schema"
        super().__init__(reason, kind="malformed", where=where)


def is_annotation(word: str, schema: dict[str, Any]) -> bool:
    """Whether a keyword of `schema` allows and forbids nothing: it is known, or marked as an
    extension. OpenAPI's `discriminator` says nothing more beside the branches that it tells apart,
    as pydantic writes it; without them it could."""
    if word == "discriminator":
        return "oneOf" in schema or "anyOf" in schema
    return word in ANNOTATIONS or word.startswith(("x-", "_"))


def malformed(what: str, where: str) -> ConstraintError:
    return ConstraintError(f"{what}; mend the schema", kind="malformed", where=where)


def unsupported(what: str, where: str) -> ConstraintError:
    return ConstraintError(
        f"{what} is not supported; write the schema without it", kind="unsupported", where=where
    )


def count(value: Any, where: str) -> int:
    """A number of items, characters or members."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise malformed("expected an integer that is not negative", where)
    if value != value or value == math.inf or value != int(value):
        raise malformed("expected an integer that is not negative", where)
    return int(value)


def exact(value: Any, where: str) -> Fraction:
    """A number as it is written."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise malformed("expected a number", where)
    if isinstance(value, float) and not math.isfinite(value):
        raise malformed("expected a finite number", where)
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))


def mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise malformed("expected an object", where)
    return value


def listing(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise malformed("expected an array", where)
    return value


def names(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise malformed("expected an array of strings", where)
    return value


def text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise malformed("expected a string", where)
    return value
