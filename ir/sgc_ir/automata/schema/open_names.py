"""Names of members where any other name may come as well, as states written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sgc_ir.automata.alike import Alike, Beyond, alike, beyond
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.words import branches


class OpenNames:
    """One of some names, each with a member behind it, or another text with a tail.

    A state is a span of the sorted names and a depth: the row of any text, and what differs for
    the names that go on there.

    Args:
        name: says which names, members and tail these are, in every process.
        names: sorted, each with its quote.
        member: what follows the name of a number.
        tail: what follows any other text.
    """

    def __init__(
        self,
        pool: Pool,
        name: str,
        names: Sequence[bytes],
        member: Callable[[int], Node],
        tail: Node,
    ) -> None:
        self._pool = pool
        self._name = name
        self._names = names
        self._member = member
        self._tail = tail

    def start(self, others: Node) -> Node:
        """Before the first byte.

        Args:
            others: the other texts, `all_but` the names (and maybe more).
        """
        return self._state(others, 0, len(self._names), 0)

    def _state(self, others: Node, low: int, high: int, depth: int) -> Node:
        if low == high:
            return self._pool.sequence(others, self._tail)
        if others is self._pool.empty:  # a name is complete
            return self._member(low)
        name = f"{self._name}.{low}.{high}.{depth}"
        return self._pool.alike(
            name,
            lambda: self._alike(others, low, high, depth),
            lambda present: self._beyond(others, low, high, depth, present),
        )

    def _alike(self, others: Node, low: int, high: int, depth: int) -> Alike:
        found = alike(self._pool, others)
        assert found is not None
        spans = {b: (first, end) for b, first, end in branches(self._names, low, high, depth)}
        assert spans.keys() <= found.changes.keys()
        changes = {
            byte: self._state(after, *spans.get(byte, (0, 0)), depth + 1)
            for byte, after in found.changes.items()
        }
        return Alike(self._pool.appended(found.other, self._tail), changes)

    def _beyond(
        self, others: Node, low: int, high: int, depth: int, present: Callable[[bytes], bool]
    ) -> Beyond:
        found = beyond(self._pool, others, present)
        assert found is not None
        numbers = {self._names[number][depth:]: number for number in range(low, high)}
        words = [
            (word, self._member(numbers[word]) if word in numbers else self._pool.empty)
            for word, _ in found.words
        ]
        return Beyond(self._pool.appended(found.other, self._tail), words)
