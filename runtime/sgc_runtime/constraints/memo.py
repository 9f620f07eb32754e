"""A bounded memory of answers, the longest unused dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Answers by question; safe for threads, two of which may find the same answer."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._known: OrderedDict[K, V] = OrderedDict()

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def find(self, key: K, make: Callable[[K], V]) -> V:
        """The answer known for `key`, or that of `make`."""
        known = self._known
        try:
            found = known[key]
            known.move_to_end(key)
        except KeyError:  # not there, or dropped meanwhile
            found = known[key] = make(key)
            while len(known) > self._entries:
                known.popitem(last=False)
        return found
