"""A bounded memory of answers, the longest unused dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
D = TypeVar("D")


class _Nothing:
    """In place of an answer that is not known."""


_NOTHING = _Nothing()


class Memo(Generic[K, V]):
    """Answers by question; safe for threads, two of which may find the same answer."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._known: OrderedDict[K, V] = OrderedDict()

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()

    def known(self, key: K, otherwise: D) -> V | D:
        """The answer known for `key`; it counts as no use of it."""
        return self._known.get(key, otherwise)

    def note(self, key: K, answer: V) -> None:
        """Remember the answer to `key`."""
        known = self._known
        known[key] = answer
        while len(known) > self._entries:
            known.popitem(last=False)

    def find(self, key: K, make: Callable[[K], V]) -> V:
        """The answer known for `key`, or that of `make`."""
        known = self._known
        found = known.get(key, _NOTHING)
        if isinstance(found, _Nothing):
            found = make(key)
            self.note(key, found)
            return found
        try:
            known.move_to_end(key)
        except KeyError:  # dropped meanwhile
            known[key] = found
        return found
