"""A walk through the trie of the waiting prompts, side by side with the tree of what is cached."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.waiting_trie import Place


class Cached:
    """Where the path to a place ends in the tree; it may end inside `node`.

    Whoever is admitted during a walk splits nodes and evicts others, so `valid` is asked first.
    """

    __slots__ = ("end", "node")

    def __init__(self, node: Node, end: int) -> None:
        self.node, self.end = node, end

    @property
    def valid(self) -> bool:
        """Whether the tree still has this place at this node."""
        return self.node.alive and self.node.start <= self.end <= self.node.end

    @property
    def start(self) -> Node:
        """Where the search for what follows may begin."""
        if self.end == self.node.end:
            return self.node
        assert self.node.parent is not None
        return self.node.parent

    def next_tokens(self) -> Collection[int]:
        """Tokens that the tree has behind the path."""
        if self.end == self.node.end:
            return self.node.children.keys()
        return (int(self.node.key[self.end - self.node.start]),)


class _Frame:
    __slots__ = ("items", "place")

    def __init__(self, place: Place, items: Iterator[Place | Request]) -> None:
        self.place, self.items = place, items


class PrefixWalk:
    """Requests below `root`, depth-first; nothing may be added or taken out meanwhile.

    Args:
        limit: how many children of one place, and how many places before the first request, are
            looked up in the cache at most.
    """

    def __init__(self, root: Place, cache: PrefixCache, limit: int) -> None:
        self._cache, self._limit = cache, limit
        self._root = root
        self._at_root = Cached(cache.tree.root, 0)
        self._frames = [self._frame(root, self._at_root)]
        self._found: dict[Place, Cached | None] = {root: self._at_root}
        self._last: Request | None = None

    def __next__(self) -> Request:
        while self._frames:
            item = next(self._frames[-1].items, None)
            if item is None:
                self._frames.pop()
            elif isinstance(item, Place):
                at = self._look_up(item) if item.children else None
                self._frames.append(self._frame(item, at))
            else:
                self._last = item
                return item
        raise StopIteration

    def skip(self, depth: int) -> tuple[int, int]:
        """Leave out what shares `depth` tokens with the request given last: how many requests,
        and the KV slots that they need behind the tokens that they share."""
        assert self._last is not None
        skipped = None
        while self._frames and self._frames[-1].place.end >= depth and self._frames[-1].place.end:
            skipped = self._frames.pop().place
        if skipped is None:
            return 1, max(0, self._last.num_target - depth)
        return skipped.count, max(0, skipped.tokens - skipped.count * skipped.end)

    # -- longest match first ------------------------------------------------------------------

    def begin_longest(self, places: int) -> None:
        """Go to the places with the longest cached prefix first, of `places` that are looked up:
        where it served last and where most wait."""
        ends = sorted(self._ends(places), key=lambda end: -end[0])
        self._frames = [frame for _, frame in reversed(ends)]  # the last frame comes first

    def _ends(self, places: int) -> Iterator[tuple[int, _Frame]]:
        """Where the cached part of the trie ends, and after how many tokens."""
        stack, looked_at = [self._root], 0
        while stack:
            place = stack.pop()
            if looked_at == places:
                yield 0, self._frame(place, None)
                continue
            looked_at += 1
            at = self._look_up(place)
            if at is None or at.end < place.end:
                yield at.end if at is not None else 0, self._frame(place, None)
                continue
            inside = self._cached_children(place, at)
            # The active one is looked up next, then the heaviest.
            inside.sort(key=lambda child: (child is place.active, child.count.bit_length()))
            stack += inside
            if place.requests or len(inside) < len(place.children):
                yield place.end, _Frame(place, self._others(place, inside))

    def _others(self, place: Place, inside: list[Place]) -> Iterator[Place | Request]:
        known = set(inside)
        yield from place.requests.values()
        yield from (child for child in place.by_weight() if child not in known)

    # -- below --------------------------------------------------------------------------------

    def _frame(self, place: Place, at: Cached | None) -> _Frame:
        return _Frame(place, self._below(place, at))

    def _below(self, place: Place, at: Cached | None) -> Iterator[Place | Request]:
        active = place.active
        if active is not None:
            yield active
        yield from place.requests.values()
        inside = self._cached_children(place, at) if at is not None else []
        yield from (child for child in inside if child is not active)
        known = {active, *inside}
        yield from (child for child in place.by_weight() if child not in known)

    def _cached_children(self, place: Place, at: Cached) -> list[Place]:
        """Children whose first token is cached, heaviest first."""
        if at.end < place.end or not at.valid:
            return []
        children, tokens = place.children, at.next_tokens()
        if len(tokens) <= len(children):
            found = [children[t] for t in islice(tokens, self._limit) if t in children]
        else:
            found = [c for t, c in islice(children.items(), self._limit) if t in tokens]
        return sorted(found, key=lambda child: -child.count.bit_length())

    def _look_up(self, place: Place) -> Cached | None:
        """Where the path to `place` ends in the tree; None when it leaves it before its parent's
        end."""
        if place in self._found:
            return self._found[place]
        assert place.parent is not None
        above = self._found.get(place.parent)
        found = None
        if above is not None and above.end == place.parent.end:
            start = above.start if above.valid else None
            found = Cached(*self._cache.find(place.path, start))
        self._found[place] = found
        return found
