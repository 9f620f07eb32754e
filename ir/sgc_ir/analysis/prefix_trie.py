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
        readers: prompts that hold these items.
        ended: prompts that end here.
        made: decode of a call makes these items' KV.
        first: number of the prompt that came first; -1 before any.
    """

    __slots__ = ("children", "ended", "first", "items", "made", "parent", "readers")

    def __init__(self, parent: Place | None, items: list[Item]) -> None:
        self.parent, self.items = parent, items
        self.children: dict[Item, Place] = {}
        self.readers = self.ended = 0
        self.made = False
        self.first = -1


class PrefixTrie:
    """All prompts of some calls."""

    def __init__(self) -> None:
        self.root = Place(None, [])
        self._count = 0

    def add(self, key: Key) -> Place:
        """Add a prompt; gives where it ends (a later prompt may put a place above it)."""
        end = self._reach(key)
        end.ended += 1
        number, self._count = self._count, self._count + 1
        for place in path(end):
            place.readers += 1
            if place.first < 0:
                place.first = number
        return end

    def make(self, key: Key, span: Span) -> None:
        """The span comes behind the prompt `key` by decode."""
        self._reach([*key, span]).made = True

    def places(self) -> Iterator[Place]:
        """All places below the root, each before its children."""
        waiting = list(self.root.children.values())
        while waiting:
            place = waiting.pop()
            yield place
            waiting += place.children.values()

    def _reach(self, key: Key) -> Place:
        place, at = self.root, 0
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


def path(place: Place) -> list[Place]:
    """The places from below the root to `place`."""
    found = []
    here: Place | None = place
    while here is not None and here.parent is not None:
        found.append(here)
        here = here.parent
    return found[::-1]


def computed_tokens(trie: PrefixTrie, length: Callable[[Place], int]) -> int:
    """Prompt tokens that even a cache without bound has to compute.

    That is every place that a prompt holds and no decode makes, once; and one token (its last, for
    the logits) for each prompt that is wholly there when its call begins.
    """
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
    upper.readers, upper.first = place.readers, place.first
    parent.children[upper.items[0]] = upper
    place.items, place.parent = place.items[at:], upper
    upper.children[place.items[0]] = place
    return upper
