"""How many tokens rows share, and a depth-first order of rows, from their slots.

A slot holds the keys and values of one token after one prefix; so rows that have a slot in common
at some position have the same tokens before it, and the length of what two rows share can be
found by bisection. NumPy, on the host.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
_AnyInts = NDArray[np.int32] | NDArray[np.int64]


def neighbour_lcp(slots: _AnyInts, starts: _AnyInts, lens: _AnyInts) -> Ints:
    """Leading slots that each row shares with the row before; 0 for the first.

    Args:
        slots: slots of all rows; row b's lie from `starts[b]` to `starts[b] + lens[b]`.
    """
    rows = len(lens)
    lcp = np.zeros(rows, np.int32)
    if rows > 1:
        starts, lens = starts.astype(np.int64), lens.astype(np.int64)
        most = np.minimum(lens[1:], lens[:-1])
        lcp[1:] = _shared(slots, starts[1:], starts[:-1], most)
    return lcp


def depth_first_order(slots: _AnyInts, starts: _AnyInts, lens: _AnyInts) -> Ints:
    """Rows ordered so that those which share most stand side by side (`order[place]` = row)."""
    starts, lens = starts.astype(np.int64), lens.astype(np.int64)
    order: list[int] = []
    stack = [np.arange(len(lens))]
    depth = [0]
    while stack:
        rows, at = stack.pop(), depth.pop()
        if len(rows) <= 2:
            order += rows.tolist()
            continue
        # By the slot at `at`; rows that end there come first, each alone.
        ended = lens[rows] <= at
        order += rows[ended].tolist()
        rows = rows[~ended]
        for group in _by_value(rows, slots[starts[rows] + at]):
            if len(group) <= 2:
                order += group.tolist()
                continue
            most = np.minimum(lens[group], lens[group[0]])
            common = int(_shared(slots, starts[group], starts[group[0]], most).min())
            stack.append(group)
            depth.append(max(common, at + 1))
    return np.array(order, np.int32)


def shared_among(shared: _AnyInts, some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leading slots that each of `some` sequences shares with the one before it among them, from
    those that each sequence shares with the one before."""
    between = np.zeros(len(some), np.int64)
    if len(some) > 1:
        # What two share is the least that neighbours between them share.
        between[1:] = np.minimum.reduceat(shared[: some[-1] + 1], some[:-1] + 1)
    return between


def _by_value(rows: NDArray[np.int64], values: _AnyInts) -> list[NDArray[np.int64]]:
    """Groups of rows with equal values, the smallest groups first."""
    if not len(rows):
        return []
    places = np.argsort(values, kind="stable")
    values, rows = values[places], rows[places]
    borders = np.flatnonzero(np.diff(values)) + 1
    return sorted(np.split(rows, borders), key=len)


def _shared(
    slots: _AnyInts,
    starts: NDArray[np.int64],
    others: NDArray[np.int64] | np.int64,
    most: NDArray[np.int64],
) -> NDArray[np.int64]:
    low, high = np.zeros_like(most), most.copy()
    last = len(slots) - 1
    for _ in range(int(most.max(initial=0)).bit_length()):
        middle = (low + high + 1) >> 1  # are the first `middle` slots shared?
        at = np.maximum(middle - 1, 0)
        same = slots[np.minimum(starts + at, last)] == slots[np.minimum(others + at, last)]
        same |= middle <= low
        low, high = np.where(same, middle, low), np.where(same, high, middle - 1)
    return np.minimum(low, most)
