"""Whether an expression holds any text: a search for an end among its parts and derivatives."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from sgc_ir.automata.limits import SliceEnded
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

_SUSPENDED = 8  # searches that may go on later


def find_alive(pool: Pool, node: Node) -> None:
    """Set `node.alive`, and that of what had to be looked at; without recursion, because chains
    are long. A search that ends with `SliceEnded` goes on with the next call for `node`."""
    searches = pool.searches.pop(node.id, None) or [Search(node)]
    try:
        while searches:
            missing = searches[-1].go_on(pool)
            if missing is None:
                searches.pop()
            else:
                searches.append(Search(missing))
    except SliceEnded:
        if len(pool.searches) < _SUSPENDED:
            pool.searches[node.id] = searches
        raise


class _Frontier:
    """Expressions to look at, given out depth first and breadth first in turns.

    The first finds a text through many independent demands, the second one out of a long count.
    """

    def __init__(self, start: Node) -> None:
        self.seen = {start.id: start}
        self.parents: dict[int, Node] = {}
        self.looked = 0
        self._deep = deque([start])
        self._broad = deque([start])
        self._done: set[int] = set()

    def next(self) -> Node | None:
        """An expression that was not given out before; None when there are no more."""
        self.looked += 1
        while self._deep and self._broad:
            node = self._deep.pop() if self.looked & 1 else self._broad.popleft()
            if node.id not in self._done:
                self._done.add(node.id)
                return node
        return None

    def add(self, parent: Node, nodes: Iterable[Node]) -> None:
        """Add what is new among `nodes`, which `parent` leads to; the last is looked at first."""
        deepen = self._deep.append if self.looked & 1 else self._deep.appendleft
        for node in nodes:
            if node.alive is not False and node.id not in self.seen:
                self.seen[node.id] = node
                self.parents[node.id] = parent
                deepen(node)
                self._broad.append(node)


class Search:
    """From `start` to an expression that surely holds a text; may be cut off and goes on then."""

    def __init__(self, start: Node) -> None:
        self._frontier = _Frontier(start)
        self._at: Node | None = None  # the expression that is looked at

    def go_on(self, pool: Pool) -> Node | None:
        """An expression that has to be decided first; None when that of `start` is decided."""
        frontier = self._frontier
        while (node := self._at or frontier.next()) is not None:
            self._at = node
            pool.tick()
            if node.nullable or node.alive:
                _mark_path(node, frontier.parents)
                return None
            if isinstance(node, Sequence) and node.head.alive is None:
                return node.head
            frontier.add(node, reversed(_edges(pool, node)))  # low bytes first
            self._at = None
            if frontier.looked > pool.limits.explored:
                raise ConstraintError(
                    f"no legal text found among {pool.limits.explored} expressions; "
                    "make the lookahead, exclusion or intersection smaller"
                )
        for node in frontier.seen.values():  # nothing that was reached ends
            node.alive = False
        return None


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
