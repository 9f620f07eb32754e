"""The prompts of the waiting requests as a trie that knows how many wait below each place."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np

from sgc_runtime.cache.radix_tree import Ids, common_prefix
from sgc_runtime.engine.request import Request

_NO_IDS: Ids = np.empty(0, np.int32)


class Place:
    """Tokens `[start, end)` that all requests below share; only the trie changes it.

    Attributes:
        ids: a waiting or former request's tokens, of which `[0, end)` are the path to here.
        requests: those that end here, by arrival.
        classes: children by the number of binary digits of their `count`, so that a heaviest
            child (within a factor of two) is found, and kept up to date, without a search.
        active: the child below which a request was served last, while any waits there; where a
            path was cut in two, what it led to.
        count: requests at and below this place.
        tokens: KV slots that these need, prompts included.
    """

    __slots__ = (
        "active",
        "children",
        "classes",
        "count",
        "end",
        "ids",
        "parent",
        "requests",
        "start",
        "tokens",
    )

    def __init__(self, parent: Place | None, ids: Ids, start: int, end: int) -> None:
        self.parent = parent
        self.ids, self.start, self.end = ids, start, end
        self.children: dict[int, Place] = {}
        self.classes: dict[int, OrderedDict[int, Place]] = {}
        self.requests: OrderedDict[int, Request] = OrderedDict()
        self.active: Place | None = None
        self.count = self.tokens = 0

    @property
    def path(self) -> Ids:
        return self.ids[: self.end]

    @property
    def first(self) -> int:
        """The token by which the parent knows it."""
        return int(self.ids[self.start])

    def by_weight(self) -> Iterator[Place]:
        """Children, those with many requests first; invalid once the trie changes."""
        for size in sorted(self.classes, reverse=True):
            yield from self.classes[size].values()


class WaitingTrie:
    """Adding and removing cost one walk along the prompt, however many requests wait.

    Args:
        size: KV slots that a request needs.
    """

    def __init__(self, size: Callable[[Request], int]) -> None:
        self.root = Place(None, _NO_IDS, 0, 0)
        self._size = size
        self._places: dict[int, Place] = {}  # by arrival

    def __len__(self) -> int:
        return len(self._places)

    def place(self, request: Request) -> Place:
        """Where a request that is in the trie ends."""
        return self._places[request.arrival]

    def add(self, request: Request) -> None:
        """Take a request whose tokens stay as they are until `remove`."""
        place = self._reach(request.tokens[: max(0, request.num_matchable)])
        place.requests[request.arrival] = request
        self._places[request.arrival] = place
        self._weigh(place, 1, self._size(request))

    def remove(self, request: Request) -> None:
        """Take out one that is in."""
        place = self._places.pop(request.arrival)
        del place.requests[request.arrival]
        self._weigh(place, -1, -self._size(request))
        self._tidy(place)

    def activate(self, request: Request) -> None:
        """Note that a request that is in the trie is served next."""
        place = self.place(request)
        while place.parent is not None:
            place.parent.active = place
            place = place.parent

    # -- below --------------------------------------------------------------------------------

    def _reach(self, ids: Ids) -> Place:
        place = self.root
        while place.end < len(ids):
            child = place.children.get(int(ids[place.end]))
            if child is None:
                leaf = Place(place, ids, place.end, len(ids))
                place.children[leaf.first] = leaf
                return leaf
            end = place.end + common_prefix(child.ids[child.start : child.end], ids[place.end :])
            place = child if end == child.end else self._split(child, end)
        return place

    def _split(self, child: Place, end: int) -> Place:
        parent = child.parent
        assert parent is not None
        upper = Place(parent, child.ids, child.start, end)
        upper.count, upper.tokens, upper.active = child.count, child.tokens, child
        self._put(parent, child, upper)
        child.start, child.parent = end, upper
        upper.children[child.first] = child
        upper.classes[child.count.bit_length()] = OrderedDict({child.first: child})
        return upper

    def _put(self, parent: Place, old: Place, new: Place) -> None:
        """Put `new`, of equal weight and first token, where `old` is."""
        parent.children[old.first] = new
        parent.classes[old.count.bit_length()][old.first] = new
        if parent.active is old:
            parent.active = new

    def _weigh(self, place: Place, count: int, tokens: int) -> None:
        while True:
            before, parent = place.count.bit_length(), place.parent
            place.count += count
            place.tokens += tokens
            if parent is None:
                return
            after = place.count.bit_length()
            if after != before:
                _move(parent.classes, place, before, after)
            place = parent

    def _tidy(self, place: Place) -> None:
        """Drop empty places, and one that only leads to a single other."""
        while place.count == 0 and place.parent is not None:
            parent = place.parent
            del parent.children[place.first]
            if parent.active is place:
                parent.active = None
            place = parent
        if place.parent is not None and not place.requests and len(place.children) == 1:
            (child,) = place.children.values()
            self._put(place.parent, place, child)
            child.start, child.parent = place.start, place.parent


def _move(classes: dict[int, OrderedDict[int, Place]], place: Place, old: int, new: int) -> None:
    if old:
        del classes[old][place.first]
        if not classes[old]:
            del classes[old]
    if new:
        classes.setdefault(new, OrderedDict())[place.first] = place
