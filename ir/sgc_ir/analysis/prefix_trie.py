"""Prompts as a trie of token ids and unknown spans, compressed, with who shares which place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sgc_ir.analysis.spans import Span

Item = int | Span
Key = Sequence[Item]


class Place:
    """Items that all prompts below share; only the trie changes it.

    Attributes:
        items: the items between the parent and here: ids, or one span alone.
        ended: prompts that end here.
        made: decode of a call makes these items' KV.

    Known after `PrefixTrie.settle`:
        readers: prompts that hold these items.
        first: number of the prompt that came first; -1 where none reads it.
        low, high: tokens from the root to here, at least and at most.
        is_open: one of the spans from the root to here has no bound; `high` takes the least of it.
        shared: ids from the root to here that several prompts hold.
        most: prompts that hold the first of these; 0: none is shared.
    """

    __slots__ = (
        *("children", "ended", "first", "high", "is_open", "items", "low", "made", "most"),
        *("number", "parent", "readers", "shared"),
    )

    def __init__(self, parent: Place | None, items: list[Item]) -> None:
        self.parent, self.items = parent, items
        self.children: dict[Item, Place] = {}
        self.ended = self.readers = self.low = self.high = self.shared = self.most = 0
        self.made = self.is_open = False
        self.first = self.number = -1  # `number`: of the first prompt that ends here


class PrefixTrie:
    """All prompts of some calls."""

    def __init__(self) -> None:
        self.root = Place(None, [])
        self._count = 0

    def add(self, key: Key, base: Place | None = None) -> Place:
        """Add the prompt that goes on with `key` from `base` on (None: from the root); gives where
        it ends (a later prompt may put a place above it)."""
        end = self._reach(key, base or self.root)
        end.ended += 1
        if end.number < 0:
            end.number = self._count
        self._count += 1
        return end

    def make(self, end: Place, span: Span) -> Place:
        """The span comes behind the prompt that ends at `end` by decode; gives where it stands."""
        place = self._reach([span], end)
        place.made = True
        return place

    def places(self) -> Iterator[Place]:
        """All places below the root, each before its children."""
        waiting = list(self.root.children.values())
        while waiting:
            place = waiting.pop()
            yield place
            waiting += place.children.values()

    def settle(self) -> None:
        """Work out what places know when all prompts are there."""
        places = list(self.places())
        for place in (self.root, *places):
            place.readers, place.first = place.ended, place.number
        for place in reversed(places):
            parent = place.parent
            assert parent is not None
            parent.readers += place.readers
            if place.first >= 0 and not 0 <= parent.first < place.first:
                parent.first = place.first
        for place in places:
            _measure(place)

    def common(self) -> int:
        """Known tokens with which all prompts begin; the trie is settled."""
        place, total = self.root, 0
        while not place.ended:
            below = [c for c in place.children.values() if c.readers == self._count]
            if not below or isinstance(below[0].items[0], Span):
                break
            place, total = below[0], total + len(below[0].items)
        return total

    def _reach(self, key: Key, place: Place) -> Place:
        at = 0
        while at < len(key):
            child = place.children.get(key[at])
            if child is None:
                child = Place(place, _run(key, at))
                place.children[key[at]] = child
            shared = _common(child.items, key, at)
            if shared < len(child.items):
                child = _split(child, shared)
            place, at = child, at + shared
        return place


def _measure(place: Place) -> None:
    parent, items = place.parent, place.items
    assert parent is not None
    low = high = len(items)
    ids, place.is_open = low, parent.is_open
    if isinstance(items[0], Span):
        ids, low, high = 0, items[0].low, items[0].high or 0
        if items[0].high is None:
            high, place.is_open = low, True
    place.low, place.high = parent.low + low, parent.high + high
    is_shared = place.readers > 1
    place.shared = parent.shared + (ids if is_shared else 0)
    place.most = parent.most or (place.readers if is_shared else 0)


def computed_tokens(trie: PrefixTrie, length: Callable[[Place], int]) -> int:
    """Prompt tokens that even a cache without bound has to compute.

    That is every place that a prompt holds and no decode makes, once; and one token (its last, for
    the logits) for each prompt that is wholly there when its call begins.
    """
    trie.settle()
    total = 0
    for place in trie.places():
        if place.readers and not place.made:
            total += length(place)
        if place.ended:
            total += place.ended if place.made else place.ended - 1
    return total


def _run(key: Key, at: int) -> list[Item]:
    """The items from `at` on that one place can hold."""
    if isinstance(key[at], Span):
        return [key[at]]
    end = at
    while end < len(key) and not isinstance(key[end], Span):
        end += 1
    return list(key[at:end])


def _common(items: list[Item], key: Key, at: int) -> int:
    count = min(len(items), len(key) - at)
    if items[:count] == list(key[at : at + count]):
        return count
    return next(i for i in range(count) if items[i] != key[at + i])


def _split(place: Place, at: int) -> Place:
    """Cut a place in two; gives the upper one."""
    parent = place.parent
    assert parent is not None
    upper = Place(parent, place.items[:at])
    parent.children[upper.items[0]] = upper
    place.items, place.parent = place.items[at:], upper
    upper.children[place.items[0]] = place
    return upper
