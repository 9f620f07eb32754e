"""The expressions of one automaton, each kept once: numbers, limits, and what is dropped."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import chain
from typing import TypeVar

from sgc_ir.automata.emptiness import Search
from sgc_ir.automata.limits import Limits, Watch
from sgc_ir.automata.nodes import Empty, Epsilon, Node, Rule
from sgc_ir.automata.parts import within
from sgc_ir.errors import ConstraintError

# Keys of two ids are one number, and others hold no types: what holds objects is looked through
# again and again by the collector of garbage.
ID_BITS = 40

_Made = TypeVar("_Made", bound=Node)


class Store:
    """What `Pool` makes, by what it was made of.

    Args:
        limits: bounds on nodes, time and emptiness questions.

    Attributes:
        empty, epsilon: no text; the empty text.
        searches: for texts of expressions, to be gone on with (`emptiness`).
        num_made: expressions so far.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._watch = Watch(limits.seconds)
        self.tick = self._watch.tick
        self._interned: dict[Hashable, Node] = {}
        self._spans: dict[int, Node] = {}  # most of all, and asked for most often
        self._followed: dict[int, Node] = {}
        self._unions: dict[tuple[int, ...], Node] = {}
        self._rules: dict[str, Rule] = {}
        self.num_made = 0
        self._dropped = 0
        self.searches: dict[int, list[Search]] = {}
        self.empty: Node = self._keep("empty", Empty(self._number(), False, False))
        self.empty.alive = False
        self.epsilon: Node = self._keep("epsilon", Epsilon(self._number(), True, True))
        self._lasting = [self.empty, self.epsilon]  # never dropped

    def restart_clock(self) -> None:
        """Give what follows the whole time limit again."""
        self._watch.restart("a step through the constraint")

    def _number(self) -> int:
        self.tick()
        self.num_made += 1
        if self.num_made - self._dropped > self.limits.nodes:
            raise ConstraintError(
                f"the constraint grows beyond {self.limits.nodes} expressions; make it smaller"
            )
        return self.num_made

    def _keep(self, key: Hashable, node: _Made) -> _Made:
        self._interned[key] = node
        return node

    @property
    def nodes(self) -> Iterable[Node]:
        """Every expression that was made."""
        return chain(self._interned.values(), self._spans.values())

    @property
    def num_nodes(self) -> int:
        """How many expressions are kept."""
        return len(self._interned) + len(self._spans)

    def keep(self, nodes: Iterable[Node]) -> set[int]:
        """Drop every expression that is not in one of `nodes`, and all rows. What else still
        holds a dropped one may go on with it: it is made anew where it is needed, as another
        expression of the same texts.

        Returns:
            The ids of those that stay.
        """
        bodies = [rule.body for rule in self._rules.values() if rule.body is not None]
        kept = within([*self._lasting, *bodies, *nodes])
        for node in self.nodes:
            node.forget_row()
        self._interned = {key: node for key, node in self._interned.items() if node.id in kept}
        self._spans = {key: node for key, node in self._spans.items() if node.id in kept}
        self._followed, self._unions, self.searches = {}, {}, {}
        self._dropped = self.num_made - self.num_nodes
        return kept

    def dissolve(self) -> None:
        """Take apart what holds itself, so that it is freed at once: the collector of garbage holds
        every thread while it looks at so many expressions. Nothing may be asked any more."""
        for node in self.nodes:
            node.dissolve()
        for rule in self._rules.values():
            rule.body = None
        for known in (self._interned, self._spans, self._followed, self._unions, self.searches):
            known.clear()
