"""States that remember texts, as items that have to differ do, and what they look like to others.

A state for each remembered text has no end of states and rows. So such a state names another one,
its shape: an expression that remembers nothing and has the same texts, and those besides that the
remembered ones exclude. What is costly (token masks) is found for the shape, which many states
share, and corrected; and a step makes one state, not a row of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sgc_ir.automata.alike import derivative
from sgc_ir.automata.nodes import Lazy, Node, Row, Sequence, Union

if TYPE_CHECKING:
    from sgc_ir.automata.pool import Pool


Doubtful = frozenset[int] | None  # bytes; None: any byte


class Memory(Protocol):
    """What a recorded state knows.

    Attributes:
        ends: whether the separator may come next.
        separator: bytes between the texts that exclude one another.
    """

    @property
    def ends(self) -> bool: ...

    @property
    def separator(self) -> bytes: ...

    def doubtful(self) -> Doubtful:
        """The bytes behind which a text may be excluded before the next separator; behind others
        it can only be excluded in what begins behind one."""

    def row(self) -> Row:
        """All derivatives."""

    def after(self, byte: int) -> Node:
        """The derivative by one byte."""

    def shape(self) -> Node:
        """See above."""

    def has_more(self, number: int) -> bool:
        """Whether there are more than `number` texts; False also where it is hard to say."""


class Recorded(Lazy):
    """A state with a memory; some text is in it for certain."""

    __slots__ = ("memory",)

    def __init__(self, number: int, name: str, memory: Memory) -> None:
        super().__init__(number, name, False, memory.row)
        self.memory = memory


class Recall(NamedTuple):
    """What one state of an automaton remembers, see `Memory`.

    Attributes:
        shape: the state of its shape.
    """

    shape: int
    doubtful: Doubtful
    ends: bool
    separators: frozenset[bytes]


def memories(node: Node) -> Iterator[Memory]:
    """Those of the recorded states with which `node` begins."""
    if isinstance(node, Recorded):
        yield node.memory
    elif isinstance(node, Sequence):
        yield from memories(node.head)
    elif isinstance(node, Union):
        for item in node.items:
            yield from memories(item)


def doubtful(node: Node) -> Doubtful:
    """See `Memory`; any byte where `node` remembers nothing."""
    found: frozenset[int] | None = None
    for memory in memories(node):
        part = memory.doubtful()
        if part is None:
            return None
        found = part | (found or frozenset())
    return found


def shape_of(pool: Pool, node: Node) -> Node:
    """`node` with the shapes of the recorded states with which it begins."""
    if isinstance(node, Recorded):
        return node.memory.shape()
    if isinstance(node, Sequence):
        return pool.sequence(shape_of(pool, node.head), node.tail)
    if isinstance(node, Union):
        return pool.union([shape_of(pool, item) for item in node.items])
    return node


def after(pool: Pool, node: Node, byte: int) -> Node:
    """The derivative of `node` by one byte, without a row of recorded states."""
    if isinstance(node, Recorded):
        return node.memory.after(byte)
    if isinstance(node, Sequence) and not node.head.nullable:
        return pool.sequence(after(pool, node.head, byte), node.tail)
    if isinstance(node, Union):
        return pool.union([after(pool, item, byte) for item in node.items])
    return derivative(node.row(pool), byte) or pool.empty
