"""Closed sets: from a state, few texts after which all alternatives are together again.

`Grade: (A|B)[+-]?; Reason: .*` behind `Grade: ` has the set `A+; A-; A; B+; B-; B;`, after which
every legal text goes on from one state: that state post-dominates the first one.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgc_ir.automata.automaton import Automaton

MOST_TEXTS = 512
_LONGEST = 512  # bytes of a text
_MEETINGS = 64  # states that are tried as the one where all texts meet
_STEPS = 8192  # states that are looked at in all


@dataclass(frozen=True, slots=True)
class ClosedSet:
    """At least two texts, sorted; no legal text begins otherwise.

    Attributes:
        state: where all of them lead to, and none is the beginning of another; None: they are
            all the texts there are, and end there.
    """

    texts: tuple[bytes, ...]
    state: int | None


def closed_sets(automaton: Automaton, state: int) -> list[ClosedSet]:
    """The closed sets of at most `MOST_TEXTS` texts from `state` on, the one that reaches
    farthest first, each without what is forced behind it; none where a text goes on freely before
    all can meet.

    Raises:
        ConstraintError: the automaton passes one of its limits.
    """
    search = _Search(automaton, state)
    whole = search.texts(None)
    if whole is not None:
        return [ClosedSet(whole, None)] if len(whole) > 1 else []
    found: list[ClosedSet] = []
    most = 1
    for meeting in search.meetings():
        texts = search.texts(meeting)
        if texts is not None and len(texts) > most:  # otherwise only what is forced is added
            most = len(texts)
            found.append(ClosedSet(texts, meeting))
    return found[::-1]


class _Search:
    def __init__(self, automaton: Automaton, start: int) -> None:
        self._automaton, self._start = automaton, start
        self._steps = _STEPS

    def meetings(self) -> list[int]:
        """Each state that all texts may have in common lies on the first of them."""
        automaton, found = self._automaton, dict.fromkeys([self._start])
        state = self._start
        while len(found) <= _MEETINGS and not automaton.is_accepting(state):
            ways = automaton.ways(state)
            if _width(ways) > MOST_TEXTS:
                break
            state = ways[0][2]
            if state in found:
                break
            found[state] = None
        return list(found)[1:]

    def texts(self, meeting: int | None) -> tuple[bytes, ...] | None:
        """All texts up to `meeting`, or whole ones; None where they are too many, too long, or
        some never come by there."""
        automaton, found = self._automaton, []
        stack = [(self._start, b"")]
        while stack:
            state, data = stack.pop()
            self._steps -= 1
            automaton.tick()
            if state == meeting:
                found.append(data)
                continue
            ends = automaton.is_accepting(state)
            ways = automaton.ways(state)
            if ends:
                if meeting is not None:
                    return None
                found.append(data)
            # Every state leads to a text of its own.
            if len(found) + len(stack) + _width(ways) > MOST_TEXTS or self._steps < 0:
                return None
            if ways and len(data) >= _LONGEST:
                return None
            for low, high, following in ways:
                stack += [(following, data + bytes([byte])) for byte in range(low, high + 1)]
        return tuple(sorted(found))


def _width(ways: tuple[tuple[int, int, int], ...]) -> int:
    return sum(high - low + 1 for low, high, _ in ways)
