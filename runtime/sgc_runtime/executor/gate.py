"""Branches whose number a run decides, and the gate that keeps program order on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.lifetimes import Life

Begin = Callable[[BaseException | None], None]


class _Entry(NamedTuple):
    cells: list[Cell]
    begin: Begin
    hold: bool


class Gate:
    """A queue of things to start, each when those before it have started and its cells are done.

    What starts is called with the first error among its cells, or None.
    """

    __slots__ = ("_held", "_queue", "_running")

    def __init__(self) -> None:
        self._queue: deque[_Entry] = deque()
        self._held = False
        self._running = False

    def enter(self, cells: list[Cell], begin: Begin) -> None:
        """Start `begin` in turn; at once when nothing is in the way."""
        self._add(_Entry(cells, begin, hold=False))

    def hold(self, begin: Begin) -> None:
        """Start `begin` in turn; what comes behind waits until `release`."""
        self._add(_Entry([], begin, hold=True))

    def release(self) -> None:
        """The holder has started everything of its own."""
        self._held = False
        self._run()

    def _add(self, entry: _Entry) -> None:
        self._queue.append(entry)
        if len(self._queue) == 1:
            self._run()

    def _run(self) -> None:
        if self._running:
            return
        self._running = True
        try:
            while self._queue and not self._held and self._start(*self._queue[0]):
                pass
        finally:
            self._running = False

    def _start(self, cells: list[Cell], begin: Begin, hold: bool) -> bool:
        waiting = next((cell for cell in cells if not cell.done), None)
        if waiting is not None:
            waiting.then(lambda _: self._run())
            return False
        self._queue.popleft()
        self._held = hold
        begin(next((cell.error for cell in cells if cell.error is not None), None))
        return True


class Family:
    """The branches of a fork.

    Attributes:
        branches: list of streams, once the width is known.
        gate: keeps program order on the branches, or None where nothing can be overtaken.
        life: of the stream that forked, where it is known.
    """

    __slots__ = ("branches", "gate", "life")

    def __init__(self, branches: Cell, gate: Gate | None, life: Life | None = None) -> None:
        self.branches = branches
        self.gate = gate
        self.life = life


class Branch(NamedTuple):
    """A branch that is reached through its family's gate; `stream` gets the stream.

    Where a pass of a loop may be long in giving a branch what it gives, the pass takes a turn at
    the branch (`Stream.turns`) and leaves the family's gate: then it is `owned`, and `gate` is the
    pass's own.
    """

    stream: Cell
    gate: Gate
    owned: bool = False

    def enter(self, begin: Begin) -> None:
        """Start `begin` in turn, when the stream is there."""
        self.gate.enter([self.stream], partial(self.start, begin))

    def start(self, begin: Begin, error: BaseException | None) -> None:
        """The gate has been passed, the stream is there or has failed with `error`."""
        turns = self.stream.value.turns if error is None and not self.owned else None
        if turns is None:
            begin(error)
        else:
            turns.enter([], begin)


class Gathered(NamedTuple):
    """A join: `variables` gets name -> Pending with the list over the branches."""

    variables: Cell
