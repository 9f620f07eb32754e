"""Which expressions become one in a union or a repetition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sgc_ir.automata.nodes import Intersection, Literal, Node, Repeat, Sequence, Span
from sgc_ir.automata.utf8 import CharSet

Count = tuple[int, int | None]  # least, most (None: without end)


def touching(counts: Iterable[Count]) -> list[Count]:
    """The counts as few intervals as they can be, without gaps filled."""
    merged: list[Count] = []
    for low, high in sorted(counts, key=lambda count: count[0]):
        last = merged[-1] if merged else None
        if last is not None and (last[1] is None or low <= last[1] + 1):
            most = None if last[1] is None or high is None else max(last[1], high)
            merged[-1] = (last[0], most)
        else:
            merged.append((low, high))
    return merged


def added(first: Repeat, second: Repeat) -> Count:
    """How often two repetitions of one body come, one behind the other."""
    high = None if first.high is None or second.high is None else first.high + second.high
    return first.low + second.low, high


def gapless(inner: Repeat, low: int, high: int | None) -> bool:
    """Whether `low` to `high` times `inner` is one repetition: k and k + 1 times `inner` have
    counts that touch, which holds for every k when it does for the least."""
    if low == high or (inner.high is None and low):
        return True
    if low == 0:
        return inner.low <= 1
    assert inner.high is not None
    return low * inner.high + 1 >= (low + 1) * inner.low


def absorbed(parts: list[Node]) -> list[Node]:
    """`parts` without the intersections that lie within another part."""
    sets = [frozenset(part.items if isinstance(part, Intersection) else (part,)) for part in parts]
    return [
        part
        for i, part in enumerate(parts)
        if not isinstance(part, Intersection)
        or not any(sets[j] < sets[i] for j in range(len(parts)))
    ]


def head_of(node: Node) -> Hashable:
    """What a union factors by; alike for expressions that begin with the same."""
    if isinstance(node, Span):
        return (Span, node.chars.id)
    if isinstance(node, Literal):
        return (Literal, node.data[node.offset])
    if isinstance(node, Sequence):
        head = node.head
        if isinstance(head, Repeat):
            return (Repeat, head.body.id, node.tail.id)
        return (Sequence, head.id)
    if isinstance(node, Repeat):
        return (Repeat, node.body.id, None)
    return (Sequence, node.id)  # alone, or before something


def shared_bytes(group: list[Literal]) -> tuple[bytes, int, int]:
    """What all literals of a group begin with, as the end of some bytes: these, where it begins,
    and its length."""
    first = group[0]
    if all(part.data == first.data and part.offset == first.offset for part in group):
        return first.data, first.offset, len(first.data) - first.offset
    texts = [part.data[part.offset :] for part in group]
    low, high = min(texts), max(texts)
    size = next((i for i in range(min(len(low), len(high))) if low[i] != high[i]), len(low))
    return low[:size], 0, size


def tail_of(node: Node) -> Node:
    assert isinstance(node, Span | Literal | Sequence)
    return node.tail


def rest_of_character(parts: list[Node]) -> CharSet | None:
    """The set that all `parts` begin with, where that is the same rest of a character."""
    first = parts[0]
    if not isinstance(first, Span) or not first.chars.inside:
        return None
    chars = first.chars
    return chars if all(isinstance(p, Span) and p.chars is chars for p in parts) else None


def is_text(node: Node, text: Node) -> bool:
    """Whether every legal text (`text`) is in the set (the others of an intersection stand at the
    same place of a character, so what is left of any character counts as well)."""
    while isinstance(node, Span) and node.chars.full:
        node = node.tail
        if node is text:
            return True
    return node is text
