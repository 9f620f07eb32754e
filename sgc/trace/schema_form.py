"""What a JSON schema says of the types in a value that is valid under it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc.trace.form import BOOL, NUM, STR, UNKNOWN, Form

_MOST_LEVELS = 8  # what is deeper stays unknown; recursive schemas end here
# A whole number may be written 1.0, and is a float then.
_SCALARS = {"string": STR, "number": NUM, "integer": NUM, "boolean": BOOL, "null": Form("none")}
_OF_VALUE = {str: STR, bool: BOOL, int: NUM, float: NUM}


def form_of_schema(schema: Any) -> Form:
    """The form of the values that are valid under `schema`, plain JSON data; as much as its plain
    keywords say, since every further one only narrows it."""
    return _form(schema, schema, 0)


def values_of_schema(schema: Any) -> tuple[str | bool, ...] | None:
    """The values that are valid under `schema` at most, where they are texts or truths that it
    lists; None where there are others. A number may be written in several ways."""
    if not isinstance(schema, Mapping):
        return None
    listed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if listed is None and schema.get("type") == "boolean":
        return False, True
    if not isinstance(listed, list | tuple) or not all(type(v) in (str, bool) for v in listed):
        return None
    return tuple(listed) or None


def _form(schema: Any, root: Any, level: int) -> Form:
    if not isinstance(schema, Mapping) or level > _MOST_LEVELS:
        return UNKNOWN
    if "$ref" in schema:
        return _form(_target(schema["$ref"], root), root, level + 1)
    if isinstance(schema.get("enum"), list):
        return _of_values(schema["enum"])
    if "const" in schema:
        return _of_values([schema["const"]])
    kind = schema.get("type")
    if kind == "object":
        return Form("dict", fields=_fields(schema, root, level))
    if kind == "array":
        whole = "prefixItems" not in schema and not isinstance(schema.get("items"), list)
        return Form("list", _form(schema.get("items"), root, level + 1) if whole else None)
    return _SCALARS.get(kind, UNKNOWN) if isinstance(kind, str) else UNKNOWN


def _fields(schema: Mapping[str, Any], root: Any, level: int) -> tuple[tuple[str, Form], ...]:
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    names = required if isinstance(required, list) else []
    return tuple((name, _form(known.get(name), root, level + 1)) for name in names)


def _of_values(values: list[Any]) -> Form:
    forms = {_OF_VALUE.get(type(value), UNKNOWN) for value in values}
    return forms.pop() if len(forms) == 1 else UNKNOWN


def _target(ref: Any, root: Any) -> Any:
    """What a reference inside the schema points to, or None."""
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    for part in ref[1:].split("/")[1:]:
        if not isinstance(root, Mapping):
            return None
        root = root.get(part.replace("~1", "/").replace("~0", "~"))
    return root
