"""Program order of tools that have effects: one chain through each program instance."""

from __future__ import annotations

from collections.abc import Callable

from sgc_runtime.executor.cell import Cell, gather


class EffectChain:
    """Where a tool with effects waits for everything at which Python would have stopped before:
    the tool before it, and earlier expressions and readings."""

    __slots__ = ("_before",)

    def __init__(self, before: list[Cell] | None = None) -> None:
        self._before = before or []

    def guard(self, cell: Cell) -> None:
        """Tools from here on run only if `cell` gets a value."""
        if not cell.done or cell.error is not None:
            self._before.append(cell)

    def link(self) -> tuple[list[Cell], Cell]:
        """What the next tool waits for, and the cell that it sets when it is done."""
        before, done = self._before, Cell()
        self._before = [done]
        return before, done

    def branch(self) -> EffectChain:
        """A chain of its own that starts behind what this one holds so far."""
        return EffectChain([cell for cell in self._before if not cell.done or cell.error])

    def nest(self) -> tuple[EffectChain, Callable[[], None]]:
        """A chain for something that starts later, here; call the function when all of it has
        started."""
        before, done = self.link()
        inner = EffectChain(list(before))

        def close() -> None:
            gather(inner._before, lambda error: done.fail(error) if error else done.set(None))

        return inner, close
