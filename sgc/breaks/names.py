"""The names in a statement, and what these lead to outside of the row."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from sgc.lang.reach import named

_NAMED = ("id", "attr", "name", "asname", "arg", "rest", "module")


def names_in(statement: ast.AST) -> frozenset[str]:
    """All names, attributes and constant texts that stand in a statement, whatever they are."""
    found: set[str] = set()
    for node in ast.walk(statement):
        for field in _NAMED:
            name = getattr(node, field, None)
            if isinstance(name, str):
                found.update(name.split("."))
        if isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return frozenset(found)


def compares_identity(statement: ast.AST) -> bool:
    """Whether it asks if two things that may be plain data are one object: equal data need not be
    the same object in the next row."""
    found = (node for node in ast.walk(statement) if isinstance(node, ast.Compare))
    return any(map(_compares_identity, found))


def _compares_identity(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    return any(
        isinstance(op, ast.Is | ast.IsNot) and not any(isinstance(x, ast.Constant) for x in pair)
        for op, *pair in zip(node.ops, sides, sides[1:], strict=False)
    )


def roots(function: FunctionType, names: frozenset[str]) -> list[Any]:
    """Each name with what it is among the globals, built-ins and closures of a function, and in
    the modules found there."""
    return list(named(names, _spaces(function)))


def _spaces(function: FunctionType) -> Iterator[dict[str, Any]]:
    yield function.__globals__
    yield vars(builtins)
    cells: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    yield cells
