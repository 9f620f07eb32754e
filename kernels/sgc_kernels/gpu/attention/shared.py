"""How many tokens rows share, and a depth-first order of rows, from their slots.

A slot holds the keys and values of one token after one prefix; so rows that have a slot in common
at some position have the same tokens before it, and the length of what two rows share can be
found by bisection. NumPy, on the host.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """Rows ordered so that those which share most stand side by side (`order[place]` = row).

    The tree of what they share is built level by level, all its nodes of a level at once.
    """
    starts, lens = starts.astype(np.int64), lens.astype(np.int64)
    order = np.arange(len(lens))
    spans = _Spans(np.zeros(1, np.int64), np.array([len(lens)]), np.zeros(1, np.int64)).open()
    while len(spans.first):
        spans = _split(order, spans, slots, starts, lens).open()
        if len(spans.first):
            rows, heads = order[spans.places], np.repeat(order[spans.first], spans.counts)
            most = np.minimum(lens[rows], lens[heads])
            shared = _shared(slots, starts[rows], starts[heads], most)
            common = np.minimum.reduceat(shared, np.cumsum(spans.counts) - spans.counts)
            spans.depth = np.maximum(common, spans.depth)
    return order.astype(np.int32)


@dataclass(slots=True)
class _Spans:
    """Runs of places whose rows share their first `depth` slots."""

    first: NDArray[np.int64]
    counts: NDArray[np.int64]
    depth: NDArray[np.int64]

    def open(self) -> _Spans:
        """Those whose order matters yet."""
        many = self.counts > 2
        return _Spans(self.first[many], self.counts[many], self.depth[many])

    @property
    def places(self) -> NDArray[np.int64]:
        offsets = np.cumsum(self.counts) - self.counts
        found = np.repeat(self.first - offsets, self.counts)
        found += np.arange(len(found))
        return found


def _split(
    order: NDArray[np.int64],
    spans: _Spans,
    slots: _AnyInts,
    starts: NDArray[np.int64],
    lens: NDArray[np.int64],
) -> _Spans:
    """Order the rows of each span by their next slot, the smallest groups first; the groups. A row
    that ends there is one by itself."""
    places = spans.places
    rows, number = order[places], np.repeat(np.arange(len(spans.first)), spans.counts)
    depth = spans.depth[number]
    after = slots[np.minimum(starts[rows] + depth, len(slots) - 1)]
    value = np.where(lens[rows] <= depth, -1 - rows, after)
    by_value = np.lexsort((value, number))
    group = np.cumsum(_borders(number[by_value], value[by_value])) - 1
    size = np.bincount(group)[group]
    by_size = np.lexsort((group, size, number[by_value]))
    sorted_ = by_value[by_size]
    order[places] = rows[sorted_]
    heads = np.flatnonzero(_borders(group[by_size]))
    return _Spans(places[heads], size[by_size][heads], depth[sorted_][heads] + 1)


def _borders(*keys: _AnyInts) -> NDArray[np.bool_]:
    """Where any of the keys differs from the one before; true at the first place."""
    found = np.zeros(len(keys[0]), np.bool_)
    found[0] = True
    for key in keys:
        found[1:] |= key[1:] != key[:-1]
    return found


def shared_among(shared: _AnyInts, some: NDArray[np.int64]) -> NDArray[np.int64]:
    """Leading slots that each of `some` sequences shares with the one before it among them, from
    those that each sequence shares with the one before."""
    between = np.zeros(len(some), np.int64)
    if len(some) > 1:
        # What two share is the least that neighbours between them share.
        between[1:] = np.minimum.reduceat(shared[: some[-1] + 1], some[:-1] + 1)
    return between


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
