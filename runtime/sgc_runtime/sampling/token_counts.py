"""Distinct token ids and how often each occurred, as arrays that grow by one id at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class TokenCounts:
    """Counts ids; adding one costs the same however many there are."""

    __slots__ = ("_counts", "_ids", "_places")

    def __init__(self, ids: Sequence[int] | npt.NDArray[np.int32] = ()) -> None:
        self._ids, self._counts = np.unique(np.array(ids, np.int64), return_counts=True)
        self._places = {token: i for i, token in enumerate(self._ids.tolist())}

    def add(self, token: int) -> None:
        """Count one more occurrence."""
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):
            more = max(16, place)
            self._ids = np.concatenate([self._ids, np.zeros(more, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        self._ids[place] = token
        self._counts[place] += 1

    @property
    def ids(self) -> Ints:
        """The distinct ids; valid until the next `add`."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> Ints:
        """Occurrences of each of `ids`."""
        return self._counts[: len(self._places)]
