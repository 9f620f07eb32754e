"""Under which outcomes of open predicates a node runs: sets of literals.

A literal is (frame, node, arm). A set of literals is a conjunction; the empty one always holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Literal = tuple[int, int, bool]
Condition = frozenset[Literal]
ALWAYS: Condition = frozenset()


def opposite(literal: Literal) -> Literal:
    frame, node, arm = literal
    return frame, node, not arm


class Conditions:
    """What follows from what; knows which conditions lead to each merge."""

    def __init__(self) -> None:
        self._ways: dict[Literal, tuple[Condition, ...]] = {}

    def merged(self, literal: Literal, ways: Iterable[Condition]) -> Condition:
        """The condition under which one of `ways` holds; `literal` names it where it is no
        conjunction."""
        left = _collapsed(set(ways))
        if len(left) == 1:
            return next(iter(left))
        self._ways[literal] = tuple(left)
        common = frozenset.intersection(*left)
        return common | {literal}

    def implies(self, given: Condition, wanted: Condition) -> bool:
        """Whether `wanted` holds whenever `given` does."""
        return all(self._follows(given, literal) for literal in wanted)

    def excludes(self, given: Condition, other: Condition) -> bool:
        """Whether both never hold together."""
        return any(self._denied(given, literal) for literal in other)

    def _follows(self, given: Condition, literal: Literal) -> bool:
        ways = self._ways.get(literal, ())
        return literal in given or any(self.implies(given, way) for way in ways)

    def _denied(self, given: Condition, literal: Literal) -> bool:
        if opposite(literal) in given:
            return True
        ways = self._ways.get(literal)
        return ways is not None and all(self.excludes(given, way) for way in ways)


def _collapsed(ways: set[Condition]) -> set[Condition]:
    """Both arms of a branch together are the branch's own condition; repeatedly."""
    changed = True
    while changed:
        changed = False
        by_literal: Mapping[Condition, Condition] = {way: way for way in ways}
        for way in list(ways):
            for literal in way:
                other = (way - {literal}) | {opposite(literal)}
                if other in by_literal:
                    ways -= {way, other}
                    ways.add(way - {literal})
                    changed = True
                    break
            if changed:
                break
    return {way for way in ways if not any(other < way for other in ways)}
