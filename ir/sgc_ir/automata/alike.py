"""Expressions whose derivatives are those of another one but for a few bytes.

Inside a name that must not be one of some, most bytes lead to where any name may follow. The row of
such a state is a copy of that one's, and as many changes as words go on there, however many ranges
of bytes, and parts behind the name, there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sgc_ir.automata.nodes import Lazy, Literal, Node, Row, Sequence, Union

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_FEW = 16  # bytes by which expressions may differ


class Alike(NamedTuple):
    """What the derivatives of an expression are.

    Attributes:
        other: the expression that has the same ones.
        changes: those that it has instead, by byte; the empty expression for none.
    """

    other: Node
    changes: dict[int, Node]


class Beyond(NamedTuple):
    """What the texts of an expression are.

    Attributes:
        other: the expression that has the same ones, but behind some words; behind what such a word
            begins with, both go on.
        words: these words, and what follows them instead; the empty expression for nothing.
    """

    other: Node
    words: list[tuple[bytes, Node]]


def beyond(pool: Pool, node: Node, present: Callable[[bytes], bool]) -> Beyond | None:
    """What the texts of `node` are; None for most expressions, which are like no other.

    Args:
        present: which words are asked for.
    """
    if isinstance(node, Lazy):
        return None if node.beyond is None else node.beyond(present)
    if isinstance(node, Sequence) and not node.head.nullable:
        head = beyond(pool, node.head, present)
        if head is not None:
            words = [(word, pool.sequence(after, node.tail)) for word, after in head.words]
            return Beyond(pool.appended(head.other, node.tail), words)
    return None


def alike(pool: Pool, node: Node) -> Alike | None:
    """What the derivatives of `node` are; None for most expressions, which are like no other."""
    if isinstance(node, Lazy):
        return None if node.alike is None else node.alike()
    if isinstance(node, Sequence) and not node.head.nullable:
        head = alike(pool, node.head)
        if head is None:
            return None
        changes = {byte: pool.sequence(after, node.tail) for byte, after in head.changes.items()}
        return Alike(pool.appended(head.other, node.tail), changes)
    if isinstance(node, Union):
        return _of_union(pool, node)
    return None


def _of_union(pool: Pool, node: Union) -> Alike | None:
    """Some items may be like other expressions, if what the rest adds is little."""
    likes, others = [], []
    for item in node.items:
        found = alike(pool, item)
        if found is None:
            others.append(item)
        else:
            likes.append(found)
    if not likes:
        return None
    added: list[tuple[int, int, Node]] = []
    for item in others:
        if isinstance(item, Literal):
            byte = item.data[item.offset]
            added.append((byte, byte, pool.literal(item.data, item.tail, item.offset + 1)))
        else:
            added += item.row(pool)
    if sum(high - low + 1 for low, high, _ in added) > _FEW:
        return None
    after: dict[int, list[Node]] = {byte: [] for like in likes for byte in like.changes}
    for low, high, following in added:
        for byte in range(low, high + 1):
            after.setdefault(byte, []).append(following)
    for byte, nodes in after.items():
        nodes += [_after(pool, like, byte) for like in likes]
    other = pool.union([like.other for like in likes])
    return Alike(other, {byte: pool.union(nodes) for byte, nodes in after.items()})


def _after(pool: Pool, like: Alike, byte: int) -> Node:
    return like.changes.get(byte) or derivative(like.other.row(pool), byte) or pool.empty


def derivative(row: Row, byte: int) -> Node | None:
    """That by `byte` in a row."""
    for low, high, node in row:
        if byte <= high:
            return node if low <= byte else None
    return None
