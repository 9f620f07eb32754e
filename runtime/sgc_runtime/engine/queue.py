"""The requests that wait, in the order in which they are looked at.

| band      | who                                                      | order within it           |
|-----------|----------------------------------------------------------|---------------------------|
| returned  | retracted ones: their memory was taken away              | arrival                   |
| started   | those of program instances of which one was served       | cohorts of instances, by  |
|           | before                                                   | start; inside the chosen  |
| fresh     | all others                                               | the chosen order          |

Adding and removing cost the same however many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator

from sgc_runtime.engine.order import ChainedWalk, ListWalk, Order, Walk
from sgc_runtime.engine.request import Request


class WaitingQueue:
    """All that wait, and whose turn it is.

    Args:
        make_order: an empty order of the chosen kind.
        size: KV slots that a request needs.
        cohort_of: the cohort of a program instance, or None when none of it was served.
    """

    def __init__(
        self,
        make_order: Callable[[], Order],
        size: Callable[[Request], int],
        cohort_of: Callable[[Request], int | None],
    ) -> None:
        self._make_order, self._size, self._cohort_of = make_order, size, cohort_of
        self._all: OrderedDict[int, Request] = OrderedDict()  # by arrival, without returned ones
        self._returned: list[Request] = []  # by arrival; never more than may run at once
        self._fresh = make_order()
        self._cohorts: dict[int, Order] = {}
        self._numbers: list[int] = []  # of cohorts of which some wait, ascending
        self._cohort: dict[int, int] = {}  # by arrival, of those in a cohort
        self._siblings: dict[int, dict[int, Request]] = {}  # fresh ones by instance and arrival
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._all) + len(self._returned)

    def __iter__(self) -> Iterator[Request]:
        """All of them in no particular order; invalid once the queue changes."""
        yield from self._returned
        yield from self._all.values()

    @property
    def oldest(self) -> Request | None:
        """The one that arrived first."""
        first = [next(iter(self._all.values()), None), *self._returned[:1]]
        return min((r for r in first if r is not None), key=lambda r: r.arrival, default=None)

    def walk(self) -> Walk:
        """All of them in order; invalid once the queue changes."""
        return ChainedWalk(self._walks())

    def add(self, request: Request) -> None:
        """Take a newcomer and number it."""
        request.arrival = self._arrivals
        self._arrivals += 1
        self._all[request.arrival] = request
        cohort = self._cohort_of(request)
        if cohort is not None:
            self._join(cohort, request)
            return
        self._fresh.add(request)
        if request.instance is not None:
            self._siblings.setdefault(request.instance, {})[request.arrival] = request

    def add_returned(self, request: Request) -> None:
        """Take one that was retracted."""
        insort(self._returned, request, key=lambda r: r.arrival)

    def remove(self, request: Request, served: bool = False) -> None:
        """Take one out that is in; `served` when it is computed now, not given up."""
        if self._all.pop(request.arrival, None) is None:
            self._returned.remove(request)
            return
        cohort = self._cohort.pop(request.arrival, None)
        if cohort is None:
            self._forget_sibling(request)
            self._fresh.remove(request, served)
            return
        self._cohorts[cohort].remove(request, served)
        if not len(self._cohorts[cohort]):
            del self._cohorts[cohort]
            del self._numbers[bisect_left(self._numbers, cohort)]

    def start(self, instance: int, cohort: int) -> None:
        """A program instance was served for the first time: what waits of it joins its cohort."""
        for request in self._siblings.pop(instance, {}).values():
            self._fresh.remove(request, served=False)
            self._join(cohort, request)

    # -- below --------------------------------------------------------------------------------

    def _walks(self) -> Iterator[Walk]:
        yield ListWalk(iter(self._returned), self._size)
        for number in self._numbers:
            yield self._cohorts[number].walk()
        yield self._fresh.walk()

    def _join(self, cohort: int, request: Request) -> None:
        if cohort not in self._cohorts:
            self._cohorts[cohort] = self._make_order()
            insort(self._numbers, cohort)
        self._cohort[request.arrival] = cohort
        self._cohorts[cohort].add(request)

    def _forget_sibling(self, request: Request) -> None:
        if request.instance is None:
            return
        siblings = self._siblings[request.instance]
        del siblings[request.arrival]
        if not siblings:
            del self._siblings[request.instance]
