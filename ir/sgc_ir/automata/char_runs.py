"""Runs of characters of one set, as expressions stand before them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import Epsilon, Node, Repeat, Span, Union
from sgc_ir.automata.nodes import Sequence as Then
from sgc_ir.automata.through import split_set
from sgc_ir.automata.utf8 import CharSet

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool

_MOST_PARTS = 8


@dataclass(frozen=True, slots=True)
class CharRun:
    """What a state that stands before a counted or endless run of characters looks like.

    The state's texts are: between `low` and `high` times (None: without end) a character of
    `chars` or one of the body's other alternatives, then what `rest` accepts.

    Attributes:
        chars: the plain characters of the body.
        low, high: how often the body still comes.
        rest: state of what follows the run.
        plain: whether the body is `chars` and nothing else.
        apart: whether neither `rest` nor another alternative of the body begins with a byte that
            a character of `chars` begins with, so a character of `chars` always belongs to the run.
        others: ranges of bytes that the other alternatives of the body begin with.
    """

    chars: CharSet
    low: int
    high: int | None
    rest: int
    plain: bool
    apart: bool
    others: tuple[tuple[int, int], ...]


def run_before(pool: Pool, node: Node, state_of: Callable[[Node], int]) -> CharRun | None:
    """How `node` stands before a run of characters, or None; None as well where the run may end
    anywhere among them, since its characters begin a repeated group, see `through`."""
    head, rest = _split(pool, node)
    chars = plain_characters(head.body) if isinstance(head, Repeat) else None
    if not isinstance(head, Repeat) or chars is None:
        return None
    others: list[tuple[int, int]] = []
    plain = isinstance(head.body, Span)
    if not plain:
        assert isinstance(head.body, Union)
        for item in head.body.items:
            if not (isinstance(item, Span) and item.chars is chars):
                others += [(low, high) for low, high, _ in item.row(pool)]
    starts = [*others, *((low, high) for low, high, _ in rest.row(pool))]
    apart = not any(
        low <= last and first <= high for low, high, _ in chars.edges for first, last in starts
    )
    if not apart and split_set(rest) is not None:
        return None
    after = state_of(rest)
    return CharRun(chars, head.low, head.high, after, plain, apart, tuple(others))


def parted(pool: Pool, node: Node) -> list[Node]:
    """Expressions that are `node` together: one for each run of characters with which it may begin,
    one for everything else; `node` alone where there is nothing to part."""
    if not isinstance(node, Union):
        return [node]
    items = [item for item in node.items if pool.is_alive(item)]
    runs = [item for item in items if _is_run(item)]
    if not runs or len(runs) > _MOST_PARTS:
        return [node]
    rest = pool.union([item for item in items if item not in runs])
    return [*runs, rest] if rest is not pool.empty else runs


def behind_characters(pool: Pool, node: Node, characters: Sequence[int]) -> list[Node]:
    """What follows so many characters of the run with which `node` begins."""
    head, tail = _split(pool, node)
    assert isinstance(head, Repeat)
    body, low, high = head.body, head.low, head.high
    return [
        pool.sequence(pool.repeat(body, max(low - n, 0), None if high is None else high - n), tail)
        for n in characters
    ]


def plain_characters(body: Node) -> CharSet | None:
    """The set of characters that is, or is one alternative of, a run's body."""
    items = body.items if isinstance(body, Union) else (body,)
    sets = [i.chars for i in items if isinstance(i, Span) and isinstance(i.tail, Epsilon)]
    return sets[0] if len(sets) == 1 else None


def _is_run(node: Node) -> bool:
    head = node.head if isinstance(node, Then) else node
    return isinstance(head, Repeat) and plain_characters(head.body) is not None


def _split(pool: Pool, node: Node) -> tuple[Node, Node]:
    """The first part of `node`, and the rest."""
    return (node.head, node.tail) if isinstance(node, Then) else (node, pool.epsilon)
