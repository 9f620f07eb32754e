"""Fewer expressions for a union of those that differ only by how often their parts come.

Where a text may be split into counted parts in many ways, as in `(a{1,20}b?){5,40}`, each way is an
expression `a{0,k} b? (a{1,20}b?){m,n}`. Those of one shape are boxes of counts: one that lies in
another adds nothing, and two that differ in one count, by intervals that touch, are one box.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from sgc_ir.automata.nodes import Literal, Node, Repeat, Sequence, Span

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_MOST_PARTS = 32  # that are looked at, one behind the other

Interval = tuple[int, float]  # least, most (inf: without end)
Box = tuple[Interval, ...]


class _Chain(NamedTuple):
    """An expression as its parts in order.

    Attributes:
        parts: expressions that each begin with one part.
        rest: what comes behind them.
        shape: alike for expressions that differ by counts alone.
        box: the counts of the repetitions among the parts.
    """

    parts: list[Node]
    rest: Node
    shape: tuple[Hashable, ...]
    box: Box


def by_counts(pool: Pool, items: list[Node]) -> list[Node]:
    """`items` of a union, with as few that begin with a repetition as there can be."""
    groups: dict[int, list[Node]] = {}
    for item in items:
        head = item.head if type(item) is Sequence else item
        if type(head) is Repeat:
            groups.setdefault(head.body.id, []).append(item)
    for group in groups.values():
        if len(group) > 1:
            items = _fewer(pool, items, group)
    return items


def _fewer(pool: Pool, items: list[Node], group: list[Node]) -> list[Node]:
    """`items`, with as few of `group` as there can be."""
    shapes: dict[tuple[Hashable, ...], dict[Box, tuple[Node, _Chain]]] = {}
    for node in group:
        chain = _chain(pool, node)
        shapes.setdefault(chain.shape, {})[chain.box] = node, chain
    for found in shapes.values():
        pool.tick(len(found))
        kept = boxes(found)
        if len(kept) < len(found):
            gone = {node.id for node, _ in found.values()}
            chain = next(iter(found.values()))[1]
            items = [item for item in items if item.id not in gone]
            items += [found[b][0] if b in found else _whole(pool, chain, b) for b in kept]
    return items


def boxes(found: Iterable[Box]) -> list[Box]:
    """Few boxes that are together what `found` are together: none lies in another, and no two are
    one. They do not depend on the order of `found`."""
    kept: list[Box] = []
    for box in sorted(found):
        i = 0
        while i < len(kept):
            both = _as_one(kept[i], box)
            if both is None:
                i += 1
            else:
                del kept[i]
                box, i = both, 0
        kept.append(box)
    return kept


def _as_one(first: Box, second: Box) -> Box | None:
    """The box that two are together, if they are one."""
    inside = outside = True  # the first in the second, the second in the first
    differing, at = 0, 0
    for i, ((low, high), (least, most)) in enumerate(zip(first, second, strict=True)):
        if low != least or high != most:
            differing, at = differing + 1, i
            inside = inside and least <= low and high <= most
            outside = outside and low <= least and most <= high
    if outside or inside:
        return first if outside else second
    (low, high), (least, most) = first[at], second[at]
    if differing > 1 or least > high + 1 or low > most + 1:
        return None
    return (*first[:at], (min(low, least), max(high, most)), *first[at + 1 :])


def _chain(pool: Pool, node: Node) -> _Chain:
    """`node` as its parts in order."""
    parts: list[Node] = []
    shape: list[Hashable] = []
    box: list[Interval] = []
    while len(parts) < _MOST_PARTS:
        parts.append(node)
        if isinstance(node, Span):
            shape.append(("span", node.chars.id))
        elif isinstance(node, Literal):
            shape.append(("literal", node.data, node.offset))
        elif isinstance(node, Sequence | Repeat):
            head = node.head if isinstance(node, Sequence) else node
            if isinstance(head, Repeat):
                shape.append(("repeat", head.body.id))
                box.append((head.low, inf if head.high is None else head.high))
            else:
                shape.append(("head", head.id))
        else:
            parts.pop()
            break
        node = pool.epsilon if isinstance(node, Repeat) else node.tail
    shape.append(node.id)
    return _Chain(parts, node, tuple(shape), tuple(box))


def _whole(pool: Pool, chain: _Chain, box: Box) -> Node:
    """The expression of the chain's shape that has the counts of `box`."""
    node, counts = chain.rest, list(box)
    for part in reversed(chain.parts):
        if isinstance(part, Span):
            node = pool.span(part.chars, node)
        elif isinstance(part, Literal):
            node = pool.literal(part.data, node, part.offset)
        else:
            head = part.head if isinstance(part, Sequence) else part
            if isinstance(head, Repeat):
                low, high = counts.pop()
                head = pool.repeat(head.body, low, None if high == inf else int(high))
            node = pool.sequence(head, node)
    return node
