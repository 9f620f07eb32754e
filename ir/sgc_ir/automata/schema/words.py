"""Many byte strings as one automaton: a state is a span of the sorted list and a depth."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool

_FEW = 4  # so few words are a plain union


def words(pool: Pool, name: str, found: Sequence[bytes], tail: Node) -> Node:
    """Any of the byte strings, then `tail`; none may begin another.

    Args:
        name: says which words these are, in every process.
    """
    data = sorted(set(found))
    if len(data) <= _FEW:
        return pool.union([pool.literal(word, tail) for word in data])
    return _Words(pool, name, data, tail).state(0, len(data), 0)


def branches(
    data: Sequence[bytes], low: int, high: int, depth: int
) -> Iterator[tuple[int, int, int]]:
    """(byte, first, end): which words of data[low:high] have which byte at `depth`."""
    while low < high:
        prefix = data[low][: depth + 1]
        end = bisect_right(data, prefix + b"\xff", low, high)
        yield prefix[depth], low, end
        low = end


class _Words:
    def __init__(self, pool: Pool, name: str, data: list[bytes], tail: Node) -> None:
        self._pool = pool
        self._name = name
        self._data = data
        self._tail = tail

    def state(self, low: int, high: int, depth: int) -> Node:
        if high - low == 1:
            return self._pool.literal(self._data[low], self._tail, depth)
        return self._pool.lazy(
            f"{self._name}/{low}.{high}.{depth}", lambda: self._row(low, high, depth)
        )

    def _row(self, low: int, high: int, depth: int) -> Row:
        return tuple(
            (byte, byte, self.state(first, end, depth + 1))
            for byte, first, end in branches(self._data, low, high, depth)
        )
