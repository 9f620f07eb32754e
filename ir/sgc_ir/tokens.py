"""Control tokens of a graph: under which arms of which branches a node runs.

A token is an arm of a Branch, or the arrival of a Merge, which stands for all the tokens that it
joins. In canonical form a token is the set of arms of which exactly one is taken, both arms of one
Branch collapsed to the token of that Branch (unless it is one on failures, see `Tokens.stays`);
None is the token that always arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from sgc_ir.graph import Node, Ref, Token
from sgc_ir.ops import Op

Arms = frozenset[Token] | None  # canonical form


class _Place(NamedTuple):
    """Where an arm stands in the tree of arms.

    Attributes:
        depth: number of arms above.
        up: the next one above.
        far: one further above.
    """

    depth: int
    up: Token
    far: Token


class Tokens:
    """Canonical tokens of the nodes of one graph, worked out once each."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._merges: dict[int, Arms] = {}
        self._places: dict[Token, _Place] = {}
        self._covered: dict[tuple[Arms, Arms], bool] = {}
        self._apart: dict[tuple[Token, Token], bool] = {}

    def forget(self, end: int) -> None:
        """The nodes from `end` on are other ones now."""
        for node in [node for node in self._merges if node >= end]:
            del self._merges[node]
        self._covered.clear()
        self._apart.clear()
        while self._places and next(reversed(self._places))[0] >= end:
            self._places.popitem()
        if any(at >= end for at, _ in self._places):
            self._places.clear()

    def of(self, token: Token | None) -> Arms:
        """Canonical form of a token; it must exist."""
        if token is None:
            return None
        at, arm = token
        if self._nodes[at].op is Op.BRANCH:
            return frozenset([(at, arm)])
        if at not in self._merges:
            tokens = [(ref.node, bool(way)) for ref, way in self._nodes[at].attrs["tokens"]]
            self._merges[at] = self.join(self.of(one) for one in tokens)
        return self._merges[at]

    def of_node(self, node: Node) -> Arms:
        """When the value of `node` is there."""
        return self.of((node.id, True) if node.op is Op.MERGE else node.control)

    def join(self, parts: Iterable[Arms]) -> Arms:
        """The token that arrives when one of several does."""
        arms: set[Token] = set()
        for part in parts:
            if part is None:
                return None
            arms |= part
        todo = [-at for at in {at for at, _ in arms}]
        heapify(todo)
        while todo:  # the innermost Branch first: its token may complete another's arms
            at = -heappop(todo)
            if (at, True) not in arms or (at, False) not in arms or self.stays(at):
                continue
            arms -= {(at, True), (at, False)}
            outer = self.of(self._nodes[at].control)
            if outer is None:
                return None
            arms |= outer
            for one, _ in outer:
                heappush(todo, -one)
        return frozenset(arms)

    def stays(self, branch: int) -> bool:
        """Whether what follows both arms of a Branch still waits for its outcome: an error that it
        takes has stopped streams, which go on behind it."""
        return "on" in self._nodes[branch].attrs

    def covers(self, have: Arms, need: Arms) -> bool:
        """Whether `have` has arrived whenever `need` arrives."""
        if have is None or have == need:
            return True
        if need is None:
            return False
        if len(need) == 1:
            return self._covers_arm(have, next(iter(need)))
        key = (have, need)
        if key not in self._covered:
            self._covered[key] = all(self._covers_arm(have, arm) for arm in need)
        return self._covered[key]

    def _covers_arm(self, have: frozenset[Token], arm: Token) -> bool:
        """Whether one of `have` is the arm, or one under which its Branch runs."""
        place = self._place(arm)
        for other in have:
            up = self._place(other)
            if up.depth <= place.depth and self._above(arm, up.depth) == other:
                return True
        outer = self.of(self._nodes[self._above(arm, 0)[0]].control)
        return outer is not None and self.covers(have, outer)

    def _place(self, arm: Token) -> _Place:
        """Where an arm stands in the tree of arms that run under one arm each."""
        todo: list[Token] = []
        above: Token | None = arm
        while above is not None and above not in self._places:
            todo.append(above)
            above = self._outer(above)
        while todo:
            one = todo.pop()
            above = self._outer(one)
            self._places[one] = _Place(0, one, one) if above is None else self._below(above)
        return self._places[arm]

    def _outer(self, arm: Token) -> Token | None:
        """The one arm under which the Branch of `arm` runs."""
        outer = self.of(self._nodes[arm[0]].control)
        return next(iter(outer)) if outer is not None and len(outer) == 1 else None

    def _below(self, above: Token) -> _Place:
        up = self._places[above]
        far = self._places[up.far]
        is_even = up.depth - far.depth == far.depth - self._places[far.far].depth
        return _Place(up.depth + 1, above, far.far if is_even else above)

    def _above(self, arm: Token, depth: int) -> Token:
        """The arm above `arm` at a depth, in logarithmic time (Myers' skip links)."""
        place = self._places[arm]
        while place.depth > depth:
            arm = place.far if self._places[place.far].depth >= depth else place.up
            place = self._places[arm]
        return arm

    def exclusive(self, one: Arms, other: Arms) -> bool:
        """Whether at most one of the two arrives."""
        if one is None or other is None:
            return False
        return all(self._exclusive(a, b) for a in one for b in other)

    def _exclusive(self, a: Token, b: Token) -> bool:
        while a[0] != b[0]:  # up, as long as there is one way
            late, early = (a, b) if a[0] > b[0] else (b, a)
            above = self._outer(late)
            if above is None:
                break
            a, b = above, early
        if a[0] == b[0]:
            return a[1] != b[1]
        late, early = (a, b) if a[0] > b[0] else (b, a)
        found = self._apart.get((late, early))
        if found is None:
            outer = self.of(self._nodes[late[0]].control)
            found = outer is not None and all(self._exclusive(arm, early) for arm in outer)
            self._apart[late, early] = found
        return found


def is_token(value: object) -> bool:
    """Whether `value` is an element of a Merge's `tokens`."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and isinstance(value[0], Ref)
        and isinstance(value[1], bool)
    )
