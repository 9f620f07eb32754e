"""What can be told of an expression by a look at its head, without all of its derivatives.

A sample passes most states with one byte and asks no more of them than whether text is forced
there; a row of a counted class over Unicode would be dozens of expressions each time, and one of
each byte of a template a row of memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import Epsilon, Literal, Node, Repeat, Sequence, Span, Union

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_MOST_OPTIONAL = 3
_MOST_ITEMS = 4  # of a union


def branches(node: Node) -> bool:
    """Whether two bytes at least may surely come first; False: unknown."""
    if not node.alive:
        return False
    if isinstance(node, Span):
        low, high, _ = node.chars.edges[0]
        return low != high or len(node.chars.edges) > 1
    if isinstance(node, Sequence):  # it is alive, so that its tail is
        return branches(node.head)
    if isinstance(node, Repeat):
        return branches(node.body)
    return isinstance(node, Union) and any(map(branches, node.items))


def behind(pool: Pool, node: Node, byte: int, optional: int = _MOST_OPTIONAL) -> Node | None:
    """The derivative of `node` by one byte, the same as in its row; None where its head is of
    another kind than a literal, a character or a repetition.

    Args:
        optional: heads that may be left out, of which so many are looked past.
    """
    if isinstance(node, Literal):
        if node.data[node.offset] != byte:
            return pool.empty
        return pool.literal(node.data, node.tail, node.offset + 1)
    if isinstance(node, Span):
        return _of_character(pool, node, byte, node.tail)
    if isinstance(node, Repeat):
        return _of_repeat(pool, node, byte, pool.epsilon)
    if isinstance(node, Union):
        return _of_union(pool, node, byte, optional)
    if not isinstance(node, Sequence):
        return pool.empty if isinstance(node, Epsilon) else None
    if isinstance(node.head, Repeat):
        first: Node | None = _of_repeat(pool, node.head, byte, node.tail)
    else:
        first = behind(pool, node.head, byte, optional)
        first = first and pool.sequence(first, node.tail)
    if first is None or not node.head.nullable:
        return first
    past = behind(pool, node.tail, byte, optional - 1) if optional else None
    return past and pool.union([first, past])


def _of_union(pool: Pool, node: Union, byte: int, optional: int) -> Node | None:
    if len(node.items) > _MOST_ITEMS:
        return None
    found: list[Node] = []
    for item in node.items:
        following = behind(pool, item, byte, optional)
        if following is None:
            return None
        found.append(following)
    return pool.union(found)


def along(pool: Pool, node: Literal, data: bytes, at: int) -> tuple[Node, int]:
    """What follows the bytes of `data` from `at` on as far as the literal goes, and the place up to
    there; the empty expression where it goes on otherwise."""
    count = min(len(node.data) - node.offset, len(data) - at)
    end = node.offset + count
    same = data[at : at + count] == node.data[node.offset : end]
    return (pool.literal(node.data, node.tail, end) if same else pool.empty), at + count


def _of_repeat(pool: Pool, head: Repeat, byte: int, tail: Node) -> Node:
    high = None if head.high is None else head.high - 1
    then = pool.sequence(pool.repeat(head.body, max(head.low - 1, 0), high), tail)
    if head.plain() is not None:
        assert isinstance(head.body, Span)
        return _of_character(pool, head.body, byte, then)
    for low, last, node in head.body.row(pool):  # one for all counts
        if low <= byte <= last:
            row = pool.followed(((byte, byte, node),), then)
            return row[0][2] if row else pool.empty
    return pool.empty


def _of_character(pool: Pool, character: Span, byte: int, tail: Node) -> Node:
    """What follows `byte` where a character of the set comes first, and then `tail`."""
    for low, high, rest in character.chars.edges:
        if low <= byte <= high:
            return tail if rest is None else pool.span(rest, tail)
    return pool.empty


def first_bytes(node: Node) -> list[tuple[int, int]] | None:
    """Ranges of the bytes that may come first, sorted and disjoint; None where they cannot be
    told without the row of `node`."""
    found = _firsts(node)
    if found is None:
        return None
    ranges: list[tuple[int, int]] = []
    for low, high in sorted(found):
        if ranges and low <= ranges[-1][1]:
            low, high = ranges[-1][0], max(high, ranges.pop()[1])
        ranges.append((low, high))
    return ranges


def _firsts(node: Node) -> list[tuple[int, int]] | None:
    if not node.alive:
        return None
    if isinstance(node, Literal):
        byte = node.data[node.offset]
        return [(byte, byte)]
    if isinstance(node, Span):
        return [(low, high) for low, high, _ in node.chars.edges]
    if isinstance(node, Repeat):
        return _firsts(node.body)
    if isinstance(node, Union):
        return _all_of(node.items)
    if isinstance(node, Sequence):
        return _all_of((node.head, node.tail) if node.head.nullable else (node.head,))
    return [] if isinstance(node, Epsilon) else None


def _all_of(nodes: Iterable[Node]) -> list[tuple[int, int]] | None:
    ranges: list[tuple[int, int]] = []
    for node in nodes:
        found = _firsts(node)
        if found is None:
            return None
        ranges += found
    return ranges
