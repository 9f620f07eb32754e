"""Places for the states of an automaton: columns from left to right, edges back below them.

After Sugiyama, Tagawa and Toda (1981): edges that close a circle are set apart, a state stands
one column behind its last predecessor, an edge over several columns has a place in each (shared
by edges of one label into one state), and the order in a column follows the neighbours' means.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

Pair = tuple[int, int]  # (source, target)
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a column: of a state, or of edges that pass there.

    Attributes:
        state: the state, or None.
        column, row: the row counts from the column's own top.
    """

    state: int | None
    column: int
    row: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything stands.

    Attributes:
        states: slot of each state.
        ways: for each edge that goes forward the slots that it passes, source and target included.
        back: edges to an earlier column, shortest first; loops are not among them.
        heights: number of slots of each column.
    """

    states: tuple[Slot, ...]
    ways: dict[Pair, tuple[Slot, ...]]
    back: tuple[Pair, ...]
    heights: tuple[int, ...]


def layout(num_states: int, labels: dict[Pair, str]) -> Layout:
    """Places for states 0 (the start) to `num_states` - 1 and the edges between them."""
    pairs = [pair for pair in labels if pair[0] != pair[1]]
    following: list[list[int]] = [[] for _ in range(num_states)]
    for source, target in pairs:
        following[source].append(target)
    order, closing = _walk(following)
    forward = [pair for pair in pairs if pair not in closing]
    column = _columns(order, forward)
    chains = {pair: _chain(pair, labels[pair], column) for pair in forward}
    rows = _rows(num_states, column, chains.values())
    slots = {key: Slot(key[0], key[2], row) for key, row in rows.items()}
    heights = [0] * (max(column) + 1)
    for slot in slots.values():
        heights[slot.column] += 1
    return Layout(
        tuple(slots[state, "", column[state]] for state in range(num_states)),
        {pair: tuple(slots[key] for key in chain) for pair, chain in chains.items()},
        tuple(sorted(closing, key=lambda pair: column[pair[0]] - column[pair[1]])),
        tuple(heights),
    )


_Key = tuple[int | None, str, int]  # (state, or None and whose edges pass, column)


def _walk(following: list[list[int]]) -> tuple[list[int], set[Pair]]:
    """States so that each comes before what it leads to, and the edges that forbid this."""
    done: list[int] = []
    closing: set[Pair] = set()
    state_of = [0] * len(following)  # 0 new, 1 on the path, 2 done
    stack = [(0, iter(following[0]))]
    state_of[0] = 1
    while stack:
        state, rest = stack[-1]
        target = next(rest, None)
        if target is None:
            stack.pop()
            state_of[state] = 2
            done.append(state)
        elif state_of[target] == 0:
            state_of[target] = 1
            stack.append((target, iter(following[target])))
        elif state_of[target] == 1:
            closing.add((state, target))
    return done[::-1], closing


def _columns(order: list[int], forward: list[Pair]) -> list[int]:
    before: list[list[int]] = [[] for _ in order]
    for source, target in forward:
        before[target].append(source)
    column = [0] * len(order)
    for state in order:
        column[state] = max((column[source] + 1 for source in before[state]), default=0)
    return column


def _chain(pair: Pair, label: str, column: list[int]) -> list[_Key]:
    source, target = pair
    inner: list[_Key] = [
        (None, f"{target} {label}", c) for c in range(column[source] + 1, column[target])
    ]
    return [(source, "", column[source]), *inner, (target, "", column[target])]


def _rows(num_states: int, column: list[int], chains: Iterable[list[_Key]]) -> dict[_Key, int]:
    columns: list[dict[_Key, None]] = [{} for _ in range(max(column) + 1)]
    for state in range(num_states):
        columns[column[state]][state, "", column[state]] = None
    left: dict[_Key, list[_Key]] = {}
    right: dict[_Key, list[_Key]] = {}
    for chain in chains:
        for key, following in pairwise(chain):
            columns[following[2]][following] = None
            left.setdefault(following, []).append(key)
            right.setdefault(key, []).append(following)
    orders = [list(keys) for keys in columns]
    for sweep in range(_SWEEPS):
        near = left if sweep % 2 == 0 else right
        places = {key: (i + 0.5) / len(keys) for keys in orders for i, key in enumerate(keys)}
        for keys in orders if sweep % 2 == 0 else reversed(orders):
            mean = {k: _mean([places[n] for n in near.get(k, ())], places[k]) for k in keys}
            keys.sort(key=mean.__getitem__)
            places |= {key: (i + 0.5) / len(keys) for i, key in enumerate(keys)}
    return {key: row for keys in orders for row, key in enumerate(keys)}


def _mean(values: list[float], default: float) -> float:
    return sum(values) / len(values) if values else default
