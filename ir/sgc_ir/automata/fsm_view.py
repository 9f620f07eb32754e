"""A finite automaton to look at: minimal, over characters, forced text as single edges.

The bytes of a character are put together again, states with equal futures are one, and a chain of
states each of which one character alone leaves is one *compressed edge* that bears the whole text
(Zheng et al. 2024, section 4). States that accept, that branch, or that a set of characters leads
to stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.fsm_labels import set_label, text_label
from sgc_ir.automata.utf8 import Ranges, normalize
from sgc_ir.errors import ConstraintError

_Edges = list[tuple[Ranges, int]]  # (characters, next state)
_LEADS = ((0xC2, 0xDF, 1, 0xC0), (0xE0, 0xEF, 2, 0xE0), (0xF0, 0xF4, 3, 0xF0))


@dataclass(frozen=True, slots=True)
class FsmEdge:
    """From one state to another.

    Attributes:
        text: the characters in order, where each is the only one (a compressed edge if several).
        chars: the set that one character is out of, where it is several; else ().
        forced: nothing else leaves `source`, which does not accept: `text` needs no model.
    """

    source: int
    target: int
    text: str
    chars: Ranges
    forced: bool

    @property
    def label(self) -> str:
        return set_label(self.chars) if self.chars else text_label(self.text)


@dataclass(frozen=True, slots=True)
class FsmView:
    """States 0 (the start), 1, ... in breadth-first order.

    Attributes:
        accepting: for each state whether the text may end there.
        edges: sorted by source, then by first character.
        byte_states: states of the automaton before anything was merged.
    """

    accepting: tuple[bool, ...]
    edges: tuple[FsmEdge, ...]
    byte_states: int

    @property
    def num_states(self) -> int:
        return len(self.accepting)


def view(automaton: Automaton, limit: int = 4096) -> FsmView:
    """The compressed automaton of all that `automaton` accepts.

    Args:
        limit: most states over bytes.

    Raises:
        ConstraintError: it has more of them, or no end of them (a recursive grammar).
    """
    rows, accepting = _explored(automaton, limit)
    small, ends, start = _minimal(rows, accepting)
    return _compressed(_character_edges(small, start), ends, start, len(rows))


def _explored(
    automaton: Automaton, limit: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Rows and acceptance of every state that can be reached; the start comes first."""
    order = {automaton.start: 0}
    waiting = [automaton.start]
    for state in waiting:
        for _, _, following in automaton.ways(state):
            if following not in order:
                order[following] = len(order)
                waiting.append(following)
        if len(order) > limit:
            raise ConstraintError(
                f"the automaton has more than {limit} states; a smaller one can be shown"
            )
    numbers = np.full(automaton.num_states + 1, DEAD, np.int32)  # the last one is for DEAD
    for state, number in order.items():
        numbers[state] = number
    rows = numbers[automaton.rows[automaton.row_of[waiting]]]
    return rows, automaton.accepting[waiting]


def _minimal(
    rows: npt.NDArray[np.int32], accepting: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_], int]:
    """States with equal futures as one (Moore 1956: classes are split until they are stable).

    Classes are told apart by random sums over a row, and the result is checked exactly.
    """
    rng = np.random.default_rng(0)
    some = np.unique(rows, axis=1)  # bytes that no state tells apart stand for one another
    weights = _random(rng, some.shape[1]) | np.uint64(1)
    _, classes = np.unique(accepting, return_inverse=True)
    count = int(classes.max()) + 1
    while True:
        values = np.append(_random(rng, count)[classes], np.uint64(0))  # the last is for DEAD
        sums = values[:-1] + (values[some] * weights).sum(axis=1, dtype=np.uint64) * np.uint64(3)
        _, classes = np.unique(sums, return_inverse=True)
        found = int(classes.max()) + 1
        if found == count:
            break
        count = found
    _, first = np.unique(classes, return_index=True)
    small = np.where(rows == DEAD, DEAD, classes[rows]).astype(np.int32)
    assert (small == small[first][classes]).all()
    assert (accepting == accepting[first][classes]).all()
    return small[first], accepting[first], int(classes[0])


def _random(rng: np.random.Generator, count: int) -> npt.NDArray[np.uint64]:
    return rng.integers(1, 2**63, count, dtype=np.uint64)


def _character_edges(rows: npt.NDArray[np.int32], start: int) -> dict[int, _Edges]:
    """What leaves each state that stands between two characters, by next state."""
    reader = _Reader(rows)
    edges: dict[int, _Edges] = {}
    waiting = [start]
    for state in waiting:
        if state in edges:
            continue
        edges[state] = reader.edges(state)
        waiting += [following for _, following in edges[state]]
    return edges


class _Reader:
    """Puts the bytes of characters together."""

    def __init__(self, rows: npt.NDArray[np.int32]) -> None:
        self._rows = rows.tolist()
        self._tails: dict[tuple[int, int], list[tuple[int, int, int]]] = {}

    def edges(self, state: int) -> _Edges:
        """(characters, next state), by first character."""
        row = self._rows[state]
        found: dict[int, list[tuple[int, int]]] = {}
        for code in range(0x80):
            if row[code] != DEAD:
                found.setdefault(row[code], []).append((code, code))
        for first, last, following, base in _LEADS:
            for lead in range(first, last + 1):
                if row[lead] != DEAD:
                    shift = (lead - base) << 6 * following
                    for low, high, target in self._tail(row[lead], following):
                        found.setdefault(target, []).append((shift + low, shift + high))
        edges = [(normalize(ranges), target) for target, ranges in found.items()]
        return sorted(edges)

    def _tail(self, state: int, following: int) -> list[tuple[int, int, int]]:
        """(first, last offset, next state) behind `following` continuation bytes."""
        if following == 0:
            return [(0, 0, state)]
        known = self._tails.get((state, following))
        if known is not None:
            return known
        out: list[tuple[int, int, int]] = []
        for number, target in enumerate(self._rows[state][0x80:0xC0]):
            if target == DEAD:
                continue
            shift = number << 6 * (following - 1)
            for low, high, end in self._tail(target, following - 1):
                if out and out[-1][2] == end and out[-1][1] == shift + low - 1:
                    out[-1] = (out[-1][0], shift + high, end)
                else:
                    out.append((shift + low, shift + high, end))
        self._tails[state, following] = out
        return out


def _single(chars: Ranges) -> bool:
    return len(chars) == 1 and chars[0][0] == chars[0][1]


def _compressed(
    edges: dict[int, _Edges], accepting: npt.NDArray[np.bool_], start: int, byte_states: int
) -> FsmView:
    forced = {
        state
        for state, ways in edges.items()
        if not accepting[state] and len(ways) == 1 and _single(ways[0][0])
    }
    kept = set(edges) - forced | {start}
    kept |= {target for ways in edges.values() for chars, target in ways if not _single(chars)}
    numbers: dict[int, int] = {start: 0}
    waiting = [start]
    out: list[FsmEdge] = []
    for state in waiting:
        for chars, following in edges[state]:
            text, target = chr(chars[0][0]) if _single(chars) else "", following
            while text and target not in kept:
                (((code, _),), target) = edges[target][0]
                text += chr(code)
            if target not in numbers:
                numbers[target] = len(numbers)
                waiting.append(target)
            out.append(
                FsmEdge(
                    numbers[state], numbers[target], text, () if text else chars, state in forced
                )
            )
    return FsmView(tuple(bool(accepting[state]) for state in waiting), tuple(out), byte_states)
