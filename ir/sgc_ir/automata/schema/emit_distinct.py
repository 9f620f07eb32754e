"""Arrays whose items are different ones of a few values: states that are sets of values."""

from __future__ import annotations

from collections.abc import Callable

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.distinct import DistinctItems, Used

Separator = Callable[[bool], bytes]  # what stands before an item; whether one came before
Closing = Callable[[bool], Node]


class DistinctWriter:
    """Writes the arrays of one cell, from behind the opening bracket."""

    def __init__(
        self, pool: Pool, items: DistinctItems, name: str, before: Separator, close: Closing
    ) -> None:
        self._pool = pool
        self._items = items
        self._name = name
        self._before = before
        self._close = close

    def state(self, index: int, used: Used) -> Node:
        """Behind `index` items, whose texts are `used`."""
        name = f"{self._name}.{index}u{','.join(sorted(used))}"
        return self._pool.lazy(name, lambda: self._row(index, used))

    def _row(self, index: int, used: Used) -> Row:
        pool = self._pool
        items = [
            pool.string(text, self.state(index + 1, used | {text}))
            for text in self._items.choices(index, used)
        ]
        parts = [self._close(index > 0)] if self._items.may_end(index) else []
        parts.append(pool.literal(self._before(index > 0), pool.union(items)))
        return pool.union(parts).row(pool)
