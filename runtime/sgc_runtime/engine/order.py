"""The orders in which waiting requests are served."""

from __future__ import annotations

import random
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.prefix_walk import PrefixWalk
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.waiting_trie import WaitingTrie

_PLACES = 64  # looked up in search of the longest cached prefix


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that a walk leaves out: how many, and the KV slots that they need in sum."""

    count: int
    tokens: int


class Walk(Iterator[Request], Protocol):
    """Requests in order; invalid once the order changes."""

    def skip(self, depth: int) -> Group:
        """Leave out the request given last and those to come that share `depth` tokens with it,
        as far as the order knows them together."""
        ...


class Order(Protocol):
    """A set of waiting requests in an order."""

    def __len__(self) -> int: ...

    def add(self, request: Request) -> None: ...

    def remove(self, request: Request, served: bool) -> None:
        """Take one out; `served` when it is computed now, not given up."""
        ...

    def walk(self) -> Walk: ...


class ArrivalOrder:
    """First come, first served."""

    def __init__(self, size: Callable[[Request], int]) -> None:
        self._size = size
        # Not a dict, whose first key costs a search through all that were taken out before it.
        self._requests: OrderedDict[int, Request] = OrderedDict()

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request) -> None:
        self._requests[request.arrival] = request

    def remove(self, request: Request, served: bool) -> None:
        del self._requests[request.arrival]

    def walk(self) -> Walk:
        return ListWalk(iter(self._requests.values()), self._size)


class RandomOrder:
    """An order drawn by lot, the same in every run (the comparison without any order)."""

    def __init__(self, size: Callable[[Request], int]) -> None:
        self._size = size
        self._lots = random.Random(0)
        self._drawn: dict[int, float] = {}  # by arrival
        self._requests: list[tuple[float, int, Request]] = []  # by lot

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, request: Request) -> None:
        lot = self._drawn[request.arrival] = self._lots.random()
        insort(self._requests, (lot, request.arrival, request))

    def remove(self, request: Request, served: bool) -> None:
        lot = self._drawn.pop(request.arrival)
        del self._requests[bisect_left(self._requests, (lot, request.arrival))]

    def walk(self) -> Walk:
        return ListWalk((request for _, _, request in self._requests), self._size)


class ListWalk:
    """A walk along requests that are not grouped."""

    def __init__(self, requests: Iterator[Request], size: Callable[[Request], int]) -> None:
        self._requests, self._size = requests, size
        self._last: Request | None = None

    def __iter__(self) -> ListWalk:
        return self

    def __next__(self) -> Request:
        self._last = next(self._requests)
        return self._last

    def skip(self, depth: int) -> Group:
        assert self._last is not None
        return Group(1, max(0, self._size(self._last) - depth))


class PrefixOrder:
    """Cache-aware: those that share a prefix are served together.

    `dfs` walks depth-first through the trie of all waiting prompts: it stays below the place
    where it served last while anybody waits there; then it goes where the cache has the next
    token, and among equals where most requests wait (within a factor of two). `lpm` begins where
    the cached prefix is longest and goes on like `dfs` among equals. `lpm` is the default: a place
    that `dfs` stays below may have nothing cached yet while another one's prefix is about to be
    evicted, which costs most where programs branch (`benchmarks/hit_rate.py` has tree of thought).
    To evict last what waiting requests need helped `dfs` and added nothing to `lpm`, so eviction
    knows nothing of them.

    Both need the trie of the waiting requests only; a step's work grows with what it looks at
    (at most `limit` places, and `_PLACES` for the longest prefix), not with the number of requests.
    """

    def __init__(
        self, cache: PrefixCache, size: Callable[[Request], int], longest: bool, limit: int
    ) -> None:
        self._cache, self._longest, self._limit = cache, longest, limit
        self._trie = WaitingTrie(size)

    def __len__(self) -> int:
        return len(self._trie)

    def add(self, request: Request) -> None:
        self._trie.add(request)

    def remove(self, request: Request, served: bool) -> None:
        if served:
            self._trie.activate(request)
        self._trie.remove(request)

    def walk(self) -> Walk:
        walk = PrefixWalk(self._trie.root, self._cache, self._limit)
        if self._longest:
            walk.begin_longest(_PLACES)
        return PrefixOrderWalk(walk)


class PrefixOrderWalk:
    """A walk along a `PrefixOrder`."""

    def __init__(self, walk: PrefixWalk) -> None:
        self._walk = walk

    def __iter__(self) -> PrefixOrderWalk:
        return self

    def __next__(self) -> Request:
        return next(self._walk)

    def skip(self, depth: int) -> Group:
        return Group(*self._walk.skip(depth))


class ChainedWalk:
    """Several walks after each other, each begun when it is reached."""

    def __init__(self, walks: Iterator[Walk]) -> None:
        self._walks = walks
        self._walk: Walk | None = None

    def __iter__(self) -> ChainedWalk:
        return self

    def __next__(self) -> Request:
        while True:
            if self._walk is not None:
                request = next(self._walk, None)
                if request is not None:
                    return request
            self._walk = next(self._walks)

    def skip(self, depth: int) -> Group:
        assert self._walk is not None
        return self._walk.skip(depth)
