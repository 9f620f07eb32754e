"""Sets of characters as small automata over UTF-8 bytes, shared wherever they are equal.

Exact UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count
from weakref import WeakValueDictionary

Ranges = tuple[tuple[int, int], ...]  # sorted, disjoint, inclusive code points

MAX_CHAR = 0x10FFFF
ALL_CHARS: Ranges = ((0, 0xD7FF), (0xE000, MAX_CHAR))  # every character that UTF-8 can hold

# First code point, last one, continuation bytes and lead byte's base of each length.
_LENGTHS = (
    (0x0, 0x7F, 0, 0x00),
    (0x80, 0x7FF, 1, 0xC0),
    (0x800, 0xFFFF, 2, 0xE0),
    (0x10000, MAX_CHAR, 3, 0xF0),
)


class CharSet:
    """What may follow inside one character: byte ranges and what is left behind each.

    Attributes:
        edges: (low byte, high byte, rest), sorted and disjoint; the rest is None where the
            character is complete.
        inside: whether a character has begun already.
        full: whether it has, and every legal way to complete it is in the set.
    """

    __slots__ = ("__weakref__", "edges", "full", "id", "inside")

    def __init__(self, edges: tuple[tuple[int, int, CharSet | None], ...], number: int) -> None:
        self.edges = edges
        self.id = number
        self.inside = 0x80 <= edges[0][0] <= 0xBF
        self.full: bool = (
            len(edges) == 1
            and edges[0][:2] == (0x80, 0xBF)
            and (edges[0][2] is None or edges[0][2].full)
        )


_interned: WeakValueDictionary[tuple[tuple[int, int, int], ...], CharSet] = WeakValueDictionary()
_numbers = count()


def _charset(edges: Sequence[tuple[int, int, CharSet | None]]) -> CharSet:
    key = tuple((low, high, -1 if rest is None else rest.id) for low, high, rest in edges)
    found = _interned.get(key)
    if found is None:
        found = _interned.setdefault(key, CharSet(tuple(edges), next(_numbers)))
    return found


@lru_cache(maxsize=4096)
def char_set(ranges: Ranges) -> CharSet:
    """The automaton of a set of characters.

    Args:
        ranges: sorted, disjoint, inclusive code points; surrogates are left out.

    Raises:
        ValueError: no character that UTF-8 can hold is in the set.
    """
    edges: list[tuple[int, int, CharSet | None]] = []
    kept = intersect(ranges, ALL_CHARS)
    for first, last, following, base in _LENGTHS:
        part = intersect(kept, ((first, last),))
        edges += [(base + low, base + high, rest) for low, high, rest in _blocks(part, following)]
    if not edges:
        raise ValueError("a set without characters has no automaton")
    return _charset(edges)


def _blocks(ranges: Ranges, following: int) -> list[tuple[int, int, CharSet | None]]:
    """Edges over the number of the block of 64 ** following characters; neighbours merged."""
    size = 64**following
    edges: list[tuple[int, int, CharSet | None]] = []
    for low, high, inside in _by_block(ranges, size):
        rest = _continuation(inside, following) if following else None
        if edges and edges[-1][1] == low - 1 and edges[-1][2] is rest:
            edges[-1] = (edges[-1][0], high, rest)
        else:
            edges.append((low, high, rest))
    return edges


@lru_cache(maxsize=65536)
def _continuation(ranges: Ranges, following: int) -> CharSet:
    """What follows a lead byte: `following` continuation bytes that spell an offset in `ranges`."""
    edges = [(0x80 + low, 0x80 + high, rest) for low, high, rest in _blocks(ranges, following - 1)]
    return _charset(edges)


def _by_block(ranges: Ranges, size: int) -> Iterator[tuple[int, int, Ranges]]:
    """(first block, last block, offsets inside each of them), in order."""
    open_block = -1
    inside: list[tuple[int, int]] = []
    for low, high in ranges:
        while low <= high:
            block = low // size
            if block != open_block:
                if inside:
                    yield open_block, open_block, tuple(inside)
                open_block, inside = -1, []
            if low % size == 0 and high - low + 1 >= size:
                last = (high + 1) // size - 1
                yield block, last, ((0, size - 1),)
                low = (last + 1) * size
                continue
            end = min(high, (block + 1) * size - 1)
            inside.append((low - block * size, end - block * size))
            open_block, low = block, end + 1
    if inside:
        yield open_block, open_block, tuple(inside)


def normalize(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted and merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def union(*sets: Ranges) -> Ranges:
    return normalize([pair for ranges in sets for pair in ranges])


def complement(ranges: Ranges) -> Ranges:
    """Every character of `ALL_CHARS` that is not in `ranges`."""
    gaps, begin = [], 0
    for low, high in ranges:
        if low > begin:
            gaps.append((begin, low - 1))
        begin = max(begin, high + 1)
    if begin <= MAX_CHAR:
        gaps.append((begin, MAX_CHAR))
    return intersect(tuple(gaps), ALL_CHARS)


def intersect(first: Ranges, second: Ranges) -> Ranges:
    found, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            found.append((low, high))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


ANY_CHAR = char_set(ALL_CHARS)
