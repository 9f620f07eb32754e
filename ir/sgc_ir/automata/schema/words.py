"""Many byte strings as one automaton: a state is a span of the sorted list and a depth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from sgc_ir.automata.alike import Alike, Beyond, derivative
from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool

_FEW = 4  # so few words are a plain union


def words(pool: Pool, name: str, found: Sequence[bytes]) -> Node:
    """Any of the byte strings.

    Args:
        name: says which words these are, in every process.
    """
    data = sorted(set(found))
    if len(data) <= _FEW:
        return pool.union([pool.literal(word, pool.epsilon) for word in data])
    return _Words(pool, name, data).state(0, len(data), 0)


def all_but(pool: Pool, name: str, text: Node, found: Sequence[bytes]) -> Node:
    """`text` without the byte strings: outside their common prefixes it is `text` again, so a step
    costs what branches there.

    Args:
        name: says which words and which text these are, in every process.
        text: one that goes on without end behind each beginning of the words, so that a text is
            left everywhere; it accepts nothing in a word's midst.
    """
    return _Others(pool, name, sorted(set(found))).start(text)


def branches(
    data: Sequence[bytes], low: int, high: int, depth: int
) -> Iterator[tuple[int, int, int]]:
    """(byte, first, end): which words of data[low:high], all longer than `depth`, have which byte
    there."""
    while low < high:
        prefix = data[low][: depth + 1]
        end = bisect_right(data, prefix + b"\xff", low, high)  # UTF-8 holds no byte 0xff
        yield prefix[depth], low, end
        low = end


class _Words:
    def __init__(self, pool: Pool, name: str, data: list[bytes]) -> None:
        self._pool = pool
        self._name = name
        self._data = data

    def state(self, low: int, high: int, depth: int) -> Node:
        if high - low == 1:
            return self._pool.literal(self._data[low], self._pool.epsilon, depth)
        ended = len(self._data[low]) == depth
        return self._pool.lazy(
            f"{self._name}/{low}.{high}.{depth}", lambda: self._row(low + ended, high, depth), ended
        )

    def _row(self, low: int, high: int, depth: int) -> Row:
        return tuple(
            (byte, byte, self.state(first, end, depth + 1))
            for byte, first, end in branches(self._data, low, high, depth)
        )


class _Others:
    """States of a text of which the words from `low` to `high` are still to be excluded."""

    def __init__(self, pool: Pool, name: str, data: list[bytes]) -> None:
        self._pool = pool
        self._name = name
        self._data = data

    def start(self, text: Node) -> Node:
        return self._state(text, 0, len(self._data), 0)

    def _state(self, text: Node, low: int, high: int, depth: int) -> Node:
        """What may follow the first `depth` bytes of a word, behind which `text` goes on."""
        low += len(self._data[low]) == depth
        if low == high:
            return self._pool.empty
        name = f"{self._name}!{low}.{high}.{depth}"
        return self._pool.alike(
            name,
            lambda: self._alike(text, low, high, depth),
            lambda present: self._beyond(text, low, high, depth, present),
        )

    def _alike(self, text: Node, low: int, high: int, depth: int) -> Alike:
        row, changes = text.row(self._pool), {}
        for byte, first, end in branches(self._data, low, high, depth):
            following = derivative(row, byte)
            if following is not None:
                changes[byte] = self._state(following, first, end, depth + 1)
        return Alike(text, changes)

    def _beyond(
        self, text: Node, low: int, high: int, depth: int, present: Callable[[bytes], bool]
    ) -> Beyond:
        words = [word[depth:] for word in self._data[low:high]]
        return Beyond(text, [(word, self._pool.empty) for word in words if present(word)])
