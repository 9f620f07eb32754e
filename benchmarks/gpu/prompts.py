"""Prompts of random ids, new ones for each repetition, so that no cache holds them."""

from __future__ import annotations

import random

Ids = list[int]

_APART = 100  # ids at either end of a vocabulary that may be control tokens


class Prompts:
    """The same prompts for the same vocabulary and seed, in every engine."""

    def __init__(self, vocab: int, seed: int) -> None:
        self._random = random.Random(f"{vocab} {seed}")
        self._first, self._behind = _APART, max(vocab - _APART, _APART + 1)

    def ids(self, length: int) -> Ids:
        """So many random ids."""
        return self._random.choices(range(self._first, self._behind), k=length)

    def rows(self, number: int, shared: int, own: int) -> list[Ids]:
        """Rows that begin with the same `shared` ids and go on with `own` ids of their own."""
        common = self.ids(shared)
        return [common + self.ids(own) for _ in range(number)]

    def between(self, low: int, high: int) -> int:
        """A length."""
        return self._random.randint(low, high)
