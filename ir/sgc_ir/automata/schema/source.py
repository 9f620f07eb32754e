"""What a user may give as a schema, as plain JSON data."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import UnionType
from typing import Any, NewType

from sgc_ir.automata.schema.size import check_size
from sgc_ir.errors import ConstraintError

_TAKEN = "give a dict, true or false, JSON text, a pydantic model or a dataclass"
_TYPES = (type, UnionType, NewType)
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def schema_source(value: Any) -> dict[str, Any] | bool:
    """The schema of a dict, a bool, a JSON text, a pydantic model or a dataclass (a type, or an
    annotation such as `list[Model]` or `int | None`).

    An object of a model or dataclass has its fields and nothing else, unless the model itself says
    what more it takes (pydantic's `extra="allow"`): without an end of its own, a small model goes
    on with names that it invents.

    Raises:
        ConstraintError: `value` is none of these, holds something that is not JSON, or is too
            large.
    """
    if isinstance(value, bool):
        return value
    try:
        data = _data(value)
    except RecursionError as error:
        raise ConstraintError("the JSON schema is nested too deeply; flatten it") from error
    except (ValueError, TypeError) as error:
        reason = _ADDRESS.sub("", " ".join(str(error).split())) or type(error).__name__
        raise _no_schema(f"{reason[:200]}; {_TAKEN}") from error
    if not isinstance(data, dict | bool):
        raise _no_schema("it is no object, true or false; mend it")
    if isinstance(data, dict) and not isinstance(data.get("$schema", ""), str):
        raise _no_schema("$schema is no string; mend it")
    return data


def _no_schema(reason: str) -> ConstraintError:
    return ConstraintError(f"not a JSON schema: {reason}", kind="malformed")


def _data(value: Any) -> Any:
    if isinstance(value, str):
        return json.loads(value)
    if isinstance(value, Mapping):
        check_size(value)
        return json.loads(json.dumps(dict(value), allow_nan=False))
    return _of_type(value)


def _of_type(value: Any) -> Any:
    from pydantic import TypeAdapter  # costs 0.1 s; only programs with models pay
    from pydantic.errors import PydanticUserError

    if not isinstance(value, _TYPES) and not hasattr(value, "__origin__"):
        raise TypeError(f"it is of type {type(value).__name__}")
    try:
        return _closed(TypeAdapter(value).json_schema())
    except PydanticUserError as error:
        raise TypeError(str(error).splitlines()[0]) from error


def _closed(schema: Any) -> Any:
    """`schema`, as pydantic writes it, with every object of known fields closed."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed_value(name, value) for name, value in schema.items()}
    if closed.get("type") == "object" and isinstance(closed.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def _closed_value(name: str, value: Any) -> Any:
    if name in ("default", "const", "enum", "examples"):  # an author's data, no schemas
        return value
    if name in ("properties", "$defs"):  # names of the author's, no keywords
        return {key: _closed(part) for key, part in value.items()}
    return _closed(value)
