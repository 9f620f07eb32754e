"""The order in which leaves of the radix tree are given up: the lowest rank first."""

from __future__ import annotations

import heapq
from typing import Generic, Protocol, TypeVar

_SPARE = 1_000  # entries out of date that are not worth a new heap


class Leaf(Protocol):
    """What is queued.

    Attributes:
        rank: its place in the order now.
        queued: the rank at which it is queued, or None; only the queue changes it.
    """

    queued: int | None

    @property
    def rank(self) -> int: ...


L = TypeVar("L", bound=Leaf)


class EvictionQueue(Generic[L]):
    """Leaves by rank. An entry may be out of date: who rises is put back when it is its turn, who
    falls gets another entry at once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, L]] = []  # (rank, serial, leaf)
        self._serial = self._stale = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, leaf: L) -> None:
        """Queue a leaf by its present rank, unless it is queued at that or below."""
        rank = leaf.rank
        if leaf.queued is not None and leaf.queued <= rank:
            return
        self.drop(leaf)
        leaf.queued = rank
        self._serial += 1
        heapq.heappush(self._heap, (rank, self._serial, leaf))

    def drop(self, leaf: L) -> None:
        """Take a leaf out, if it is in."""
        if leaf.queued is None:
            return
        leaf.queued = None
        self._stale += 1
        if 2 * self._stale > len(self._heap) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[2].queued == entry[0]]
            heapq.heapify(self._heap)
            self._stale = 0

    def pop(self) -> tuple[L | None, int]:
        """The leaf that is first by the rank at which it was queued, and that rank; None where
        there is none. It is queued no more; where its rank is another one now, it is to be pushed
        again."""
        while self._heap:
            rank, _, leaf = heapq.heappop(self._heap)
            if leaf.queued == rank:
                leaf.queued = None
                return leaf, rank
            self._stale -= 1
        return None, 0
