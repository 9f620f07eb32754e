"""Equality that tells True from 1, 0.0 from -0.0, nan from other nans, and orders of dicts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from sgc_ir.graph import Graph, Node, Param, Program


def frozen(value: Any) -> Any:
    """A comparable stand-in of a constant, operand, graph or program."""
    if isinstance(value, float):
        return "float", struct.pack(">d", value)
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(frozen(item) for item in value)
    if isinstance(value, dict):
        return "dict", tuple((frozen(k), frozen(v)) for k, v in value.items())
    if isinstance(value, Program):
        graphs = tuple(frozen(value.graphs[name]) for name in sorted(value.graphs))
        tools = tuple(sorted(value.tools.items()))
        return value.main, graphs, value.outputs, tools, frozen(dict(value.notes))
    if isinstance(value, Graph):
        parts = (frozen(list(value.params)), frozen(list(value.nodes)))
        return value.name, *parts, value.source
    if isinstance(value, Param):
        return value.name, value.annotation, frozen(value.default), value.keyword_only
    if isinstance(value, Node):
        attrs = tuple((name, frozen(value.attrs[name])) for name in sorted(value.attrs))
        return (
            value.id,
            value.op,
            value.stream,
            attrs,
            value.source,
            value.control,
            frozen(value.body),
        )
    return type(value).__name__, value


def all_nodes(program: Program) -> Iterator[Node]:
    """Every node, those of bodies too."""
    stack = list(program.graphs.values())
    while stack:
        for node in stack.pop().nodes:
            yield node
            if node.body is not None:
                stack.append(node.body)
