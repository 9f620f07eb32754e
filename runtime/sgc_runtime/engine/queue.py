"""The requests that wait, by arrival; adding and removing cost the same however many there are."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from itertools import chain

from sgc_runtime.engine.request import Request


class WaitingQueue:
    """Newcomers behind each other; in front of them those that came back from flight."""

    def __init__(self) -> None:
        self._new: dict[int, Request] = {}  # by arrival
        self._returned: list[Request] = []  # by arrival; never more than may run at once
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._new) + len(self._returned)

    def __iter__(self) -> Iterator[Request]:
        """By arrival, returned ones first; invalid once the queue changes."""
        return chain(self._returned, self._new.values())

    def add(self, request: Request) -> None:
        """Take a newcomer and number it."""
        request.arrival = self._arrivals
        self._arrivals += 1
        self._new[request.arrival] = request

    def add_returned(self, request: Request) -> None:
        """Take one that was retracted."""
        insort(self._returned, request, key=lambda r: r.arrival)

    def remove(self, request: Request) -> None:
        """Take one out that is in."""
        if self._new.pop(request.arrival, None) is None:
            self._returned.remove(request)
