"""Arguments of a graph: defaults filled in, names and types checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, Graph
from sgc_ir.types import check_value


def bind_arguments(graph: Graph, given: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each parameter. Raises InputError for a missing, unknown or mistyped one."""
    names = [param.name for param in graph.params]
    for name in given:
        if name not in names:
            known = ", ".join(names) or "none"
            raise InputError(f"{graph.name}: unknown argument {name}; its arguments are {known}")
    bound: dict[str, Any] = {}
    for param in graph.params:
        value = given.get(param.name, param.default)
        if value is MISSING:
            raise InputError(f"{graph.name}: missing argument {param.name}; give a value")
        if param.name in given and param.annotation:
            try:
                check_value(value, param.annotation)
            except ValueError as error:
                raise InputError(f"{graph.name}: argument {param.name}: {error}") from None
        bound[param.name] = value
    return bound
