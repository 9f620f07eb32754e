"""What expressions are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from sgc_ir.automata.nodes import (
    Complement,
    Intersection,
    Literal,
    Node,
    Repeat,
    Sequence,
    Span,
    Union,
)

# By type, since this is asked for each expression.
_PARTS: dict[type[Node], Callable[[Any], tuple[Node, ...]]] = {
    Literal: lambda node: (node.tail,),
    Span: lambda node: (node.tail,),
    Sequence: attrgetter("head", "tail"),
    Union: attrgetter("items"),
    Intersection: attrgetter("items"),
    Complement: lambda node: (node.body,),
    Repeat: lambda node: (node.body,),
}


def parts_of(node: Node) -> tuple[Node, ...]:
    """The expressions that `node` was made from; not those behind a name."""
    read = _PARTS.get(type(node))
    return () if read is None else read(node)


def within(nodes: Iterable[Node]) -> set[int]:
    """The ids of `nodes` and of all that they are made of."""
    stack = list(nodes)
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node.id not in seen:
            seen.add(node.id)
            stack += parts_of(node)
    return seen
