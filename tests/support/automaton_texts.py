"""All texts of small automata."""

from __future__ import annotations

from sgc_ir.automata.automaton import Automaton


def texts_of(
    automaton: Automaton, state: int, limit: int, longest: int = 4096
) -> list[bytes] | None:
    """Every text from `state` on, sorted, where they are at most `limit` and none is longer than
    `longest` bytes; else None."""
    found: list[bytes] = []
    stack = [(state, b"")]
    seen = 0
    while stack:
        state, data = stack.pop()
        seen += 1
        if len(data) > longest or seen > 64 * limit + 4096:
            return None
        if automaton.is_accepting(state):
            found.append(data)
            if len(found) > limit:
                return None
        for low, high, following in automaton.ways(state):
            if high - low >= limit:
                return None
            stack += [(following, data + bytes([byte])) for byte in range(low, high + 1)]
    return sorted(found)
