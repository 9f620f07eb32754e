"""Arrays whose items differ from one another, as expressions that remember the items so far.

Few possible values are remembered as a set. Integers without close bounds are remembered by their
digits: a state for each text so far, which only numbers are short enough for.
"""

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
        parts = [self._close(index > 0)] if self._items.may_end(index) else []
        if self._items.endless(index):  # items are looked at only behind the separator
            name = f"{self._name}.{index}i{','.join(sorted(used))}"
            item = pool.lazy(name, lambda: self._item(index, used).row(pool))
        else:
            item = self._item(index, used)
        parts.append(pool.literal(self._before(index > 0), item))
        return pool.union(parts).row(pool)

    def _item(self, index: int, used: Used) -> Node:
        pool = self._pool
        items = [
            pool.string(text, self.state(index + 1, used | {text}))
            for text in self._items.choices(index, used)
        ]
        others = self._items.open_text(index, used)
        if pool.is_alive(others):
            items.append(self._spelling(others, b"", index, used))
        return pool.union(items)

    def _spelling(self, rest: Node, text: bytes, index: int, used: Used) -> Node:
        """Inside an item: `rest` may follow what was written of it."""
        name = f"{self._name}.{index}u{','.join(sorted(used))}t{text.decode()}"
        return self._pool.lazy(name, lambda: self._spelling_row(rest, text, index, used))

    def _spelling_row(self, rest: Node, text: bytes, index: int, used: Used) -> Row:
        pool = self._pool
        row = tuple(
            (byte, byte, self._spelling(node, text + bytes([byte]), index, used))
            for low, high, node in rest.row(pool)
            if pool.is_alive(node)
            for byte in range(low, high + 1)
        )
        if not rest.nullable:
            return row
        behind = self.state(index + 1, used | {text.decode()})
        return pool.union_rows([row, behind.row(pool)])
