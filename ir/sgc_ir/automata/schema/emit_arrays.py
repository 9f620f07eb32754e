"""Arrays as expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sgc_ir.automata.nodes import Node, Row
from sgc_ir.automata.schema.cells import Arrays
from sgc_ir.automata.schema.counts import ArrayCounts, State
from sgc_ir.automata.schema.distinct import MOST_ITEMS
from sgc_ir.automata.schema.emit_distinct import DistinctWriter
from sgc_ir.automata.schema.emit_recorded import NO_ITEMS, Parts, RecordedWriter
from sgc_ir.automata.schema.keywords import unsupported
from sgc_ir.automata.schema.style import Level

if TYPE_CHECKING:
    from sgc_ir.automata.schema.emit import Emitter


class ArrayWriter:
    """Writes the arrays of one cell, from behind the opening bracket."""

    def __init__(self, emitter: Emitter, cell: Arrays, level: Level, name: str) -> None:
        self._emitter = emitter
        self._pool = emitter.tools.pool
        self._cell = cell
        self._level = level
        self._name = name
        feasible = emitter.tools.feasible
        self._distinct = feasible.plans.distinct(cell)
        self._counts = ArrayCounts(cell, feasible.plans, feasible.holds)

    def start(self) -> Node:
        if self._distinct is not None:
            if not self._distinct.listed:
                return self._recorded()
            writer = DistinctWriter(
                self._pool, self._distinct, self._name, self._before, self._close
            )
            return writer.state(0, frozenset())
        if self._cell.contains:
            return self._counted(self._counts.start, False)
        return self._state(0)

    # With different items

    def _recorded(self) -> Node:
        level = self._level._replace(single=True)
        cell = replace(self._cell, unique="")
        alike = ArrayWriter(self._emitter, cell, level, f"{self._name}i")
        parts = Parts(alike.item, self._before, self._close, alike._after, self._cell.low)
        writer = RecordedWriter(self._pool, self._emitter.amounts, f"{self._name}r", parts)
        return writer.state(NO_ITEMS)

    def item(self, index: int) -> Node:
        """The texts of an item; empty behind the last one."""
        if self._counts.cap is not None and index >= self._counts.cap:
            return self._pool.empty
        return self._emitter.value(self._cell.item(index), self._level.below)

    def check(self, endless: bool) -> None:
        """Refuse items of which there may be too few for all to differ.

        Args:
            endless: they hold the array again.
        """
        low = self._cell.low
        if endless and not self._emitter.amounts.above(self.item(0), MOST_ITEMS):
            raise unsupported("uniqueItems on items that hold the array again", self._cell.unique)
        for i in (*range(min(low, len(self._cell.prefix))), *([low - 1] if low else [])):
            if not self._emitter.amounts.above(self.item(i), i):
                raise unsupported(
                    f"uniqueItems on {low} items or more of a few values", self._cell.unique
                )

    # Without `contains`

    def _state(self, index: int) -> Node:
        """After `index` of the first items."""
        if index == self._counts.cap:
            return self._close(index > 0)
        name = f"{self._name}.{index}"
        return self._pool.lazy(name, lambda: self._row(index))

    def _row(self, index: int) -> Row:
        return self._items(index).row(self._pool)

    def _items(self, index: int) -> Node:
        pool, cell = self._pool, self._cell
        if index >= len(cell.prefix) and index > 0:
            return self._rest(index)
        item = pool.literal(
            self._before(index > 0),
            pool.sequence(
                self._emitter.value(cell.item(index), self._level.below), self._after(index + 1)
            ),
        )
        return item if index < cell.low else pool.union([item, self._close(index > 0)])

    def _after(self, index: int) -> Node:
        """Behind item `index`; all further ones are alike behind the first items."""
        if index < max(len(self._cell.prefix), 1) and index != self._counts.cap:
            return self._state(index)
        return self._rest(index)

    def _rest(self, index: int) -> Node:
        pool, cell, cap = self._pool, self._cell, self._counts.cap
        close = self._close(True)
        if index == cap:
            return close
        item = pool.literal(self._before(True), self._emitter.value(cell.rest, self._level.below))
        most = None if cap is None else cap - index
        return pool.sequence(pool.repeat(item, max(cell.low - index, 0), most), close)

    # With `contains`

    def _counted(self, state: State, started: bool) -> Node:
        text = ",".join(map(str, state[1]))
        name = f"{self._name}.{state[0]}:{text}:{started:d}"
        return self._pool.lazy(name, lambda: self._counted_row(state, started))

    def _counted_row(self, state: State, started: bool) -> Row:
        pool = self._pool
        items = [
            pool.sequence(
                self._emitter.value(goal, self._level.below), self._counted(following, True)
            )
            for goal, following in self._counts.following(state)
        ]
        item = pool.literal(self._before(started), pool.union(items))
        parts = [item, self._close(started)] if self._counts.ends(state) else [item]
        return pool.union(parts).row(pool)

    def _before(self, started: bool) -> bytes:
        return self._emitter.tools.style.before(started, self._level.depth + 1)

    def _close(self, started: bool) -> Node:
        end = self._emitter.tools.style.after(started, self._level.depth) + b"]"
        return self._pool.literal(end, self._pool.epsilon)
