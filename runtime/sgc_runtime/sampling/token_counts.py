"""Distinct token ids and how often each occurred, as arrays that change by one id at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class TokenCounts:
    """Counts ids; adding one costs the same however many there are."""

    __slots__ = ("_counts", "_ids", "_places")

    def __init__(self, ids: Sequence[int] | npt.NDArray[np.int32] = ()) -> None:
        if len(ids):
            self._ids, self._counts = np.unique(np.array(ids, np.int64), return_counts=True)
        else:  # most gens: made for each, so without a sort
            self._ids = self._counts = np.empty(0, np.int64)
        self._places = {token: i for i, token in enumerate(self._ids.tolist())}

    def add(self, token: int, times: int = 1) -> None:
        """Count one more occurrence, or with `times` -1 one less; an id without any is gone."""
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._ids):
            more = max(16, place)
            self._ids = np.concatenate([self._ids, np.zeros(more, np.int64)])
            self._counts = np.concatenate([self._counts, np.zeros(more, np.int64)])
        self._ids[place] = token
        self._counts[place] += times
        if self._counts[place] == 0:
            self._drop(token, place)

    def _drop(self, token: int, place: int) -> None:
        """The last id takes the place of one that is gone."""
        last = len(self._places) - 1
        moved = int(self._ids[last])
        self._ids[place], self._counts[place] = moved, self._counts[last]
        self._counts[last] = 0
        self._places[moved] = place
        del self._places[token]

    @property
    def ids(self) -> Ints:
        """The distinct ids; valid until the next `add`."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> Ints:
        """Occurrences of each of `ids`."""
        return self._counts[: len(self._places)]
