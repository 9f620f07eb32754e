"""What a user may give as a schema, as plain JSON data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sgc_ir.errors import ConstraintError


def schema_source(value: Any) -> dict[str, Any] | bool:
    """The schema of a dict, a bool, a JSON text, a pydantic model or a dataclass (a type, or an
    annotation such as `list[Model]`).

    Raises:
        ConstraintError: `value` is none of these, or holds something that is not JSON.
    """
    if isinstance(value, bool):
        return value
    try:
        data = _data(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise _no_schema(" ".join(str(error).split()) or type(error).__name__) from error
    if not isinstance(data, dict | bool):
        raise _no_schema("a JSON schema is an object, true or false")
    if isinstance(data, dict) and not isinstance(data.get("$schema", ""), str):
        raise _no_schema("$schema of a JSON schema is a string")
    return data


def _no_schema(reason: str) -> ConstraintError:
    return ConstraintError(f"not a JSON schema: {reason}", kind="malformed")


def _data(value: Any) -> Any:
    if isinstance(value, str):
        return json.loads(value)
    if isinstance(value, Mapping):
        return json.loads(json.dumps(dict(value), allow_nan=False))
    return _of_type(value)


def _of_type(value: Any) -> Any:
    from pydantic import TypeAdapter  # costs 0.1 s; only programs with models pay
    from pydantic.errors import PydanticUserError

    if not isinstance(value, type) and not hasattr(value, "__origin__"):
        raise TypeError("expected a schema (dict), a pydantic model or a dataclass")
    try:
        return TypeAdapter(value).json_schema()
    except PydanticUserError as error:
        raise TypeError(str(error).splitlines()[0]) from error
