"""What expressions are made of."""

from __future__ import annotations

from collections.abc import Iterable

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


def parts_of(node: Node) -> tuple[Node, ...]:
    """The expressions that `node` was made from; not those behind a name."""
    if isinstance(node, Literal | Span):
        return (node.tail,)
    if isinstance(node, Sequence):
        return node.head, node.tail
    if isinstance(node, Union | Intersection):
        return node.items
    if isinstance(node, Complement | Repeat):
        return (node.body,)
    return ()


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
