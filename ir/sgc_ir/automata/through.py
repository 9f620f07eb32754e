"""States behind characters of one set, in texts that may be split in many ways.

In `(W{1,20}S?){5,40}` each character of W may belong to the group of the one before it, or begin
another. What follows so many of them is the same whichever they are, and is found without
looking at bytes, of which a set over Unicode has dozens of ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sgc_ir.automata.nodes import Empty, Epsilon, Literal, Node, Repeat, Sequence, Span, Union
from sgc_ir.automata.utf8 import CharSet

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool


class Through(NamedTuple):
    """What follows characters of one set.

    Attributes:
        chars: the set.
        starts: ranges of bytes that anything else may begin with, behind such characters.
        others: by the number of the characters, up to the number asked for or the last behind which
            anything follows: the state of what begins with something else; None: nothing does.
    """

    chars: CharSet
    starts: frozenset[tuple[int, int]]
    others: list[int | None]


def through(
    pool: Pool, node: Node, longest: Callable[[CharSet], int], state_of: Callable[[Node], int]
) -> Through | None:
    """What follows characters of the set whose repetition `node` begins with; None where a text
    cannot be split there in many ways, or something else begins with some of the characters.

    Args:
        longest: how many characters of a set are asked for.
    """
    chars = split_set(node)
    if chars is None:
        return None
    starts: set[tuple[int, int]] = set()
    others: list[int | None] = []
    behind: dict[int, Node] = {}  # what is known of tails, most of which come again
    beside: dict[int, Node | None] = {}
    most = longest(chars)
    while True:
        other = _others(pool, node, chars, starts, beside)
        if other is None:
            return None
        others.append(state_of(other) if pool.is_alive(other) else None)
        if len(others) > most:
            break
        node = _behind(pool, node, chars, behind)
        if not pool.is_alive(node):
            break
    return Through(chars, frozenset(starts), others)


def split_set(node: Node) -> CharSet | None:
    """The set of the repetition that begins a repeated group which may be no more than that, as
    one may come first in `node`."""
    if isinstance(node, Repeat):
        body = node.body
        if isinstance(body, Sequence) and body.tail.nullable:
            body = body.head
        return (body.plain() or split_set(body)) if isinstance(body, Repeat) else None
    if isinstance(node, Sequence):
        head = node.head
        found = split_set(head)
        if found is None and (head.nullable or isinstance(head, Repeat)):
            found = split_set(node.tail)
            if not head.nullable and isinstance(head, Repeat) and head.plain() is not found:
                return None
        return found
    if isinstance(node, Union):
        return next((found for item in node.items if (found := split_set(item))), None)
    return None


def _behind(pool: Pool, node: Node, chars: CharSet, known: dict[int, Node]) -> Node:
    """What follows any character of the set, where nothing else begins with some of them."""
    if isinstance(node, Span):
        return node.tail if node.chars is chars else pool.empty
    if isinstance(node, Union):
        return pool.union([_behind(pool, item, chars, known) for item in node.items])
    if isinstance(node, Repeat):
        return pool.sequence(_behind(pool, node.body, chars, known), _once_less(pool, node))
    if not isinstance(node, Sequence):
        return pool.empty
    head = node.head
    if isinstance(head, Repeat):
        then = pool.sequence(_once_less(pool, head), node.tail)
        first = pool.sequence(_behind(pool, head.body, chars, known), then)
    else:
        first = pool.sequence(_behind(pool, head, chars, known), node.tail)
    if not head.nullable:
        return first
    past = known.get(node.tail.id)
    if past is None:
        past = known[node.tail.id] = _behind(pool, node.tail, chars, known)
    return pool.union([first, past])


def _others(
    pool: Pool,
    node: Node,
    chars: CharSet,
    starts: set[tuple[int, int]],
    known: dict[int, Node | None],
) -> Node | None:
    """The texts, but for the empty one, that do not begin with a character of the set; None where
    that cannot be told from the first parts. Adds to `starts` what they begin with."""
    if isinstance(node, Empty | Epsilon):
        return pool.empty
    if isinstance(node, Span):
        if node.chars is chars:
            return pool.empty
        starts.update((low, high) for low, high, _ in node.chars.edges)
        return node if _apart(node.chars, chars) else None
    if isinstance(node, Literal):
        starts.add((node.data[node.offset], node.data[node.offset]))
        return None if _begins(node.data[node.offset :][:4], chars) else node
    if isinstance(node, Union):
        items = [_others(pool, item, chars, starts, known) for item in node.items]
        told = [item for item in items if item is not None]
        return pool.union(told) if len(told) == len(items) else None
    if isinstance(node, Repeat):
        first = _others(pool, node.body, chars, starts, known)
        return first and pool.sequence(first, _once_less(pool, node))
    if not isinstance(node, Sequence):
        return None
    first = _others(pool, node.head, chars, starts, known)
    first = first and pool.sequence(first, node.tail)
    if first is None or not node.head.nullable:
        return first
    number = node.tail.id
    if number not in known:
        known[number] = _others(pool, node.tail, chars, starts, known)
    past = known[number]
    return past and pool.union([first, past])


def _once_less(pool: Pool, node: Repeat) -> Node:
    high = None if node.high is None else node.high - 1
    return pool.repeat(node.body, max(node.low - 1, 0), high)


@lru_cache(1024)
def _apart(first: CharSet, second: CharSet) -> bool:
    """Whether no character is in both."""
    return not any(
        low <= most and least <= high and (rest is None or other is None or not _apart(rest, other))
        for low, high, rest in first.edges
        for least, most, other in second.edges
    )


def _begins(data: bytes, chars: CharSet) -> bool:
    """Whether `data`, which may break off inside a character, begins with one of the set."""
    inside: CharSet | None = chars
    for byte in data:
        assert inside is not None
        edge = next((edge for edge in inside.edges if edge[0] <= byte <= edge[1]), None)
        if edge is None:
            return False
        inside = edge[2]
        if inside is None:
            return True
    return True
