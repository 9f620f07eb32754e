"""What every legal text of an automaton begins and ends with."""

from __future__ import annotations

from typing import NamedTuple

from sgc_ir.automata.automaton import Automaton

_LONGEST = 4096  # bytes of an end


class Ends(NamedTuple):
    """What all legal texts have in common.

    Attributes:
        prefix, suffix: bytes; the same where there is one text only.
        whole: there is one text only.
    """

    prefix: bytes
    suffix: bytes
    whole: bool


def ends_of(automaton: Automaton, states: int = 2048) -> Ends:
    """The ends of the legal texts.

    Args:
        states: in an automaton with more states the suffix is not looked for, and is empty.

    Raises:
        ConstraintError: the automaton passes one of its limits.
    """
    prefix, state = automaton.forced(automaton.start, _LONGEST)
    if automaton.is_final(state):
        return Ends(prefix, prefix, True)
    return Ends(prefix, _suffix(automaton, states), False)


def _suffix(automaton: Automaton, most: int) -> bytes:
    """From the ends backwards, as long as all ways into the states lead over one byte."""
    before = _before(automaton, most)
    if before is None:
        return b""
    here = {state for state in before if automaton.is_accepting(state)}
    found = bytearray()
    while automaton.start not in here and len(found) < _LONGEST:
        ways = [way for state in here for way in before[state]]
        edges = {(low, high) for _, low, high in ways}
        if len(edges) != 1 or len(set(edges.pop())) != 1:
            break
        found.append(ways[0][1])
        here = {source for source, _, _ in ways}
    return bytes(found[::-1])


def _before(automaton: Automaton, most: int) -> dict[int, list[tuple[int, int, int]]] | None:
    """(state before, low, high byte) of every edge, by the state that it leads to."""
    found: dict[int, list[tuple[int, int, int]]] = {automaton.start: []}
    waiting = [automaton.start]
    for state in waiting:
        for low, high, following in automaton.ways(state):
            if following not in found:
                found[following] = []
                waiting.append(following)
            found[following].append((state, low, high))
        if len(waiting) > most:
            return None
    return found
