"""Many byte strings as one automaton: a state is a span of the sorted list and a depth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

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
