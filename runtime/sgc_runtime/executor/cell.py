"""Values that arrive later: the futures of the executor, cheaper than asyncio's.

Cells are used on the event-loop thread only. Callbacks run in the order in which they were added
and never inside each other: a chain of any length needs constant stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Self

Callback = Callable[["Cell"], None]

_ready: deque[tuple[Callback, Cell]] = deque()
_draining = False


class Cell:
    """A value or an error, set once.

    Attributes:
        done: whether a value or an error is there.
        value: the value; None before.
        error: the error, or None.
    """

    __slots__ = ("_callbacks", "done", "error", "value")

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._callbacks: list[Callback] | None = None

    @classmethod
    def of(cls, value: Any) -> Self:
        """A cell that holds `value` already."""
        cell = cls()
        cell.done, cell.value = True, value
        return cell

    @classmethod
    def failed(cls, error: BaseException) -> Self:
        """A cell that has failed already."""
        cell = cls()
        cell.done, cell.error = True, error
        return cell

    def set(self, value: Any) -> None:
        """Give the value; a cell that is done already keeps what it has."""
        if not self.done:
            self.value = value
            self.done = True  # last: another thread may look
            self._fire()

    def fail(self, error: BaseException) -> None:
        """Give the error; a cell that is done already keeps what it has."""
        if not self.done:
            self.error = error
            self.done = True  # last, as above
            self._fire()

    def then(self, callback: Callback) -> None:
        """Call `callback(self)` once done: at once if it is already."""
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def forward(self, other: Cell) -> None:
        """Give `other` what this cell gets."""
        self.then(lambda cell: other.take(cell))

    def take(self, other: Cell) -> None:
        """Take value or error of the done cell `other`."""
        if other.error is not None:
            self.fail(other.error)
        else:
            self.set(other.value)

    def result(self) -> Any:
        """The value; raises the error. The cell must be done."""
        assert self.done, "result() of a cell that is not done"
        if self.error is not None:
            raise self.error
        return self.value

    def _fire(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        if callbacks:
            for callback in callbacks:
                _ready.append((callback, self))
            if not _draining:
                drain()


def drain() -> None:
    """Run the callbacks that are due, unless they are being run further up the stack."""
    global _draining
    if _draining:
        return
    _draining = True
    try:
        while _ready:
            callback, cell = _ready.popleft()
            callback(cell)
    finally:
        _draining = False


def pending_cells(operand: Any) -> list[Cell]:
    """All cells inside nested tuples, lists and dicts, left to right."""
    found: list[Cell] = []
    _collect(operand, found)
    return found


def _collect(operand: Any, found: list[Cell]) -> None:
    if isinstance(operand, Cell):
        found.append(operand)
    elif isinstance(operand, _CONTAINERS):
        for item in operand.values() if isinstance(operand, dict) else operand:
            if isinstance(item, _WAITABLE):
                _collect(item, found)


_CONTAINERS = (tuple, list, dict)
_WAITABLE = (Cell, *_CONTAINERS)


def fill(operand: Any) -> Any:
    """`operand` with each done cell replaced by its value; containers keep their type."""
    if not isinstance(operand, _WAITABLE):
        return operand
    if isinstance(operand, Cell):
        return operand.value
    if isinstance(operand, tuple):
        return tuple([fill(item) for item in operand])
    if isinstance(operand, list):
        return [fill(item) for item in operand]
    if isinstance(operand, dict):
        return {key: fill(item) for key, item in operand.items()}
    return operand


def gather(cells: list[Cell], callback: Callable[[BaseException | None], None]) -> None:
    """Call `callback(error)` when all cells are done; `error` is that of the first failed one in
    list order, or None."""
    missing = sum(1 for cell in cells if not cell.done)

    def finish() -> None:
        callback(next((cell.error for cell in cells if cell.error is not None), None))

    def count(_: Cell) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            finish()

    if missing == 0:
        finish()
        return
    for cell in [cell for cell in cells if not cell.done]:
        cell.then(count)


def resolve(operand: Any, callback: Callable[[Any, BaseException | None], None]) -> None:
    """Call `callback(value, error)` when every cell inside `operand` is done.

    `operand` is a plain value, a `Cell`, or nested tuples, lists and dicts of them.
    """
    if isinstance(operand, Cell):
        operand.then(lambda cell: callback(cell.value, cell.error))
        return
    cells = pending_cells(operand)
    if not cells:
        callback(operand, None)
        return
    gather(cells, lambda error: callback(None if error else fill(operand), error))


def as_cell(operand: Any) -> Cell:
    """A cell with the resolved value of `operand`; a `Cell` is given back as it is."""
    if isinstance(operand, Cell):
        return operand
    if not isinstance(operand, _CONTAINERS):
        return Cell.of(operand)
    cell = Cell()
    resolve(operand, lambda value, error: cell.fail(error) if error else cell.set(value))
    return cell


class ListCell(Cell):
    """A list whose length may be known before all of its items.

    Attributes:
        items: gets the list of operands (plain values and Cells).
    """

    __slots__ = ("items",)

    def __init__(self) -> None:
        super().__init__()
        self.items = Cell()

    @classmethod
    def holding(cls, operands: list[Any]) -> ListCell:
        """The list of `operands`."""
        cell = cls()
        cell.give(operands)
        return cell

    def give(self, operands: list[Any]) -> None:
        """The length is known now, and the items, some still to come."""
        self.items.set(operands)
        as_cell(operands).forward(self)

    def fail(self, error: BaseException) -> None:
        """No list will come."""
        self.items.fail(error)
        super().fail(error)
