"""Whether an expression holds any text: a search for an end among its derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgc_ir.automata.limits import Watch
from sgc_ir.automata.nodes import Literal, Node, Reference, Repeat, Sequence, Span, Union
from sgc_ir.errors import ConstraintError

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool


def find_alive(pool: Pool, node: Node) -> None:
    """Set `node.alive`, and that of what had to be looked at."""
    parts = _parts(node)
    if parts is None:
        _search(pool, node)
        return
    items, every = parts
    for item in items:
        if item.alive is None:
            find_alive(pool, item)
        if bool(item.alive) != every:
            node.alive = not every
            return
    node.alive = every


def _parts(node: Node) -> tuple[tuple[Node, ...], bool] | None:
    """Expressions that decide over `node`, and whether all of them must hold a text (else one)."""
    if isinstance(node, Union):
        return node.items, False
    if isinstance(node, Sequence):
        return (node.tail, node.head), True
    if isinstance(node, Span | Literal):
        return (node.tail,), True
    if isinstance(node, Repeat):
        return (node.body,), True
    if isinstance(node, Reference):
        return (), True
    return None


def _search(pool: Pool, start: Node) -> None:
    """Depth first from `start`, an intersection or a complement, to a text that is in it."""
    watch = Watch(pool.limits.seconds, "looking for a legal text")
    seen = {start.id: start}
    parents: dict[int, Node] = {}
    stack = [start]
    while stack:
        watch.tick()
        node = stack.pop()
        if node.nullable or node.alive or (node is not start and _known(pool, node)):
            _mark_path(node, parents)
            return
        for _, _, following in node.row(pool):
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


def _known(pool: Pool, node: Node) -> bool:
    """Whether `node` is decided by parts that are not searched from here."""
    parts = _parts(node)
    if parts is None:
        return False
    find_alive(pool, node)
    return bool(node.alive)


def _mark_path(node: Node, parents: dict[int, Node]) -> None:
    node.alive = True
    while node.id in parents:
        node = parents[node.id]
        node.alive = True
