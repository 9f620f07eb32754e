"""Program order of tools in a graph whose nodes are not started in program order."""

from __future__ import annotations

from heapq import heappop, heappush

from sgc_runtime.executor.cell import Cell, gather
from sgc_runtime.executor.effects import EffectChain


class OrderedChain(EffectChain):
    """A chain that knows the position of each node that takes part; what stands at a position
    waits for everything before it, also for what is not known yet to run.

    The frame says `begin` before it starts such a node, and `passed` when it has started or is
    known not to run. `outer` is the chain around the frame: what follows there waits for all of it.
    """

    __slots__ = ("_asked", "_at", "_cells", "_known", "_number", "_open")

    def __init__(self, outer: EffectChain, count: int) -> None:
        before, done = outer.link()
        super().__init__(before)
        self._cells: list[list[Cell]] = [[] for _ in range(count)]
        self._known = [False] * count
        self._at: int | None = None
        self._open = 0  # every position before it has passed
        self._asked: list[tuple[int, int, Cell]] = []
        self._number = 0
        self._reached(count).forward(done)

    def begin(self, position: int | None) -> None:
        """What comes next belongs to the node at `position`; None: it takes no part."""
        self._at = position

    def passed(self, position: int) -> None:
        """Nothing more will come from the node at `position`."""
        self._known[position] = True
        while self._open < len(self._known) and self._known[self._open]:
            self._before += self._cells[self._open]
            self._open += 1
            self._answer()  # before what stands at the next position is added

    def guard(self, cell: Cell) -> None:
        if not cell.done or cell.error is not None:
            self._here().append(cell)

    def link(self) -> tuple[list[Cell], Cell]:
        done = Cell()
        before = self._reached(self._position())
        self._here().append(done)
        return [before], done

    def branch(self) -> EffectChain:
        return EffectChain([self._reached(self._position())])

    def _position(self) -> int:
        assert self._at is not None, "a node of which the plan does not know that it takes part"
        return self._at

    def _here(self) -> list[Cell]:
        return self._cells[self._position()]

    def _reached(self, position: int) -> Cell:
        """Done when everything before `position` has run well."""
        reached = Cell()
        self._number += 1
        heappush(self._asked, (position, self._number, reached))
        self._answer()
        return reached

    def _answer(self) -> None:
        while self._asked and self._asked[0][0] <= self._open:
            reached = heappop(self._asked)[2]
            self._before = [cell for cell in self._before if not cell.done or cell.error]
            _all_of(self._before, reached)


def _all_of(cells: list[Cell], into: Cell) -> None:
    gather(list(cells), lambda error: into.fail(error) if error else into.set(None))
