"""Whether an expression holds any text: a search for an end among its parts and derivatives."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import (
    Complement,
    Delayed,
    Intersection,
    Literal,
    Node,
    Repeat,
    Sequence,
    Span,
    Union,
)
from sgc_ir.errors import ConstraintError

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_Search = Generator[Node, None, None]  # yields expressions that have to be decided first


def find_alive(pool: Pool, node: Node) -> None:
    """Set `node.alive`, and that of what had to be looked at; without recursion, because chains
    are long."""
    searches: list[_Search] = [_search(pool, node)]
    while searches:
        missing = next(searches[-1], None)
        if missing is None:
            searches.pop()
        else:
            searches.append(_search(pool, missing))


def _search(pool: Pool, start: Node) -> _Search:
    """Depth first from `start` to an expression that surely holds a text."""
    seen = {start.id: start}
    parents: dict[int, Node] = {}
    stack = [start]
    while stack:
        pool.tick()
        node = stack.pop()
        if node.nullable or node.alive:
            _mark_path(node, parents)
            return
        if isinstance(node, Sequence) and node.head.alive is None:
            yield node.head
        for following in _edges(pool, node):
            if following.alive is False or following.id in seen:
                continue
            seen[following.id] = following
            parents[following.id] = node
            stack.append(following)
        if len(seen) > pool.limits.explored:
            raise ConstraintError(
                f"no legal text found among {pool.limits.explored} expressions; "
                "make the lookahead, exclusion or intersection smaller"
            )
    for node in seen.values():  # nothing that was reached ends
        node.alive = False


def _edges(pool: Pool, node: Node) -> tuple[Node, ...] | list[Node]:
    """Expressions of which one that holds a text shows that `node` does; if none, it does not."""
    if isinstance(node, Union):
        return node.items
    if isinstance(node, Span | Literal):
        return (node.tail,)
    if isinstance(node, Sequence):
        return (node.tail,) if node.head.alive else ()
    if isinstance(node, Repeat | Delayed):
        return (node.body,)
    if isinstance(node, Intersection | Complement):
        return [following for _, _, following in node.row(pool)]
    return ()


def _mark_path(node: Node, parents: dict[int, Node]) -> None:
    node.alive = True
    while node.id in parents:
        node = parents[node.id]
        node.alive = True
