"""Expressions that no short text can tell apart.

Which tokens may follow depends only on what texts begin with, as far as a token goes. Where `X` may
still come 150 times, no token of 80 bytes can use that up, so the mask is that of `X*`; a state for
each count has one mask then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import Literal, Node, Repeat, Sequence, Span, Union

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_MOST_HEADS = 3  # before a repetition that are looked past
_MOST_ITEMS = 8  # of a union that are looked at
_MOST_BYTES = 2  # of a literal that is looked past: one that is longer is not before each count


def near(pool: Pool, node: Node, num_bytes: int, heads: int = _MOST_HEADS) -> Node:
    """An expression whose texts begin, for `num_bytes` bytes, as those of `node` do, and that is
    the same for more of them; often `node` itself.

    A word of the repetition's body has a byte at least. So that many bytes hold at most that many
    words: a higher bound is none, and of a lower one it matters only that it is beyond them.
    """
    if isinstance(node, Repeat):
        return _near_repeat(pool, node, num_bytes)
    if isinstance(node, Union):
        return _near_union(pool, node, num_bytes, heads)
    if isinstance(node, Sequence):
        head, tail = node.head, node.tail
        if isinstance(head, Repeat):
            head = _near_repeat(pool, head, num_bytes)
        if heads:
            tail = near(pool, tail, num_bytes, heads - 1)
        same = head is node.head and tail is node.tail
        return node if same else pool.sequence(head, tail)
    if isinstance(node, Span) and heads:
        tail = near(pool, node.tail, num_bytes, heads - 1)
        return node if tail is node.tail else pool.span(node.chars, tail)
    if isinstance(node, Literal) and heads and len(node.data) - node.offset <= _MOST_BYTES:
        tail = near(pool, node.tail, num_bytes, heads - 1)
        return node if tail is node.tail else pool.literal(node.data, tail, node.offset)
    return node


def _near_union(pool: Pool, node: Union, num_bytes: int, heads: int) -> Node:
    if len(node.items) > _MOST_ITEMS:
        return node
    items = [near(pool, item, num_bytes, heads) for item in node.items]
    same = all(one is item for one, item in zip(items, node.items, strict=True))
    return node if same else pool.union(items)


def _near_repeat(pool: Pool, node: Repeat, num_bytes: int) -> Node:
    high = None if node.high is None or node.high >= num_bytes else node.high
    low = min(node.low, num_bytes + 1)
    if high == node.high and low == node.low:
        return node
    return pool.repeat(node.body, low, high)
