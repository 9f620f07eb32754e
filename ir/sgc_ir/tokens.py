"""Control tokens of a graph: under which arms of which branches a node runs.

A token is an arm of a Branch, or the arrival of a Merge, which stands for all the tokens that it
joins. In canonical form a token is the set of arms of which exactly one is taken, both arms of one
Branch collapsed to the token of that Branch; None is the token that always arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sgc_ir.graph import Node, Ref, Token
from sgc_ir.ops import Op

Arms = frozenset[Token] | None  # canonical form


class Tokens:
    """Canonical tokens of the nodes of one graph, worked out once each."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._merges: dict[int, Arms] = {}

    def forget(self, end: int) -> None:
        """The nodes from `end` on are other ones now."""
        for node in [node for node in self._merges if node >= end]:
            del self._merges[node]

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
        todo = sorted({at for at, _ in arms})
        while todo:  # the innermost Branch first: its token may complete another's arms
            at = todo.pop()
            if not {(at, True), (at, False)} <= arms:
                continue
            arms -= {(at, True), (at, False)}
            outer = self.of(self._nodes[at].control)
            if outer is None:
                return None
            arms |= outer
            todo = sorted({*todo, *(one for one, _ in outer)})
        return frozenset(arms)

    def covers(self, have: Arms, need: Arms) -> bool:
        """Whether `have` has arrived whenever `need` arrives."""
        if have is None or have == need:
            return True
        if need is None:
            return False
        first = min(at for at, _ in have)
        return all(self._covers_arm(have, arm, first) for arm in need)

    def _covers_arm(self, have: frozenset[Token], arm: Token, first: int) -> bool:
        while arm not in have:
            if arm[0] < first:
                return False
            outer = self.of(self._nodes[arm[0]].control)
            if outer is None:
                return False
            if len(outer) > 1:
                return self.covers(have, outer)
            (arm,) = outer
        return True

    def exclusive(self, one: Arms, other: Arms) -> bool:
        """Whether at most one of the two arrives."""
        if one is None or other is None:
            return False
        return all(self._exclusive(a, b) for a in one for b in other)

    def _exclusive(self, a: Token, b: Token) -> bool:
        if a[0] == b[0]:
            return a[1] != b[1]
        late, early = (a, b) if a[0] > b[0] else (b, a)
        outer = self.of(self._nodes[late[0]].control)
        return outer is not None and all(self._exclusive(arm, early) for arm in outer)


def is_token(value: object) -> bool:
    """Whether `value` is an element of a Merge's `tokens`."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and isinstance(value[0], Ref)
        and isinstance(value[1], bool)
    )
