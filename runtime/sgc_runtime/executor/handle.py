"""The handle of a sub-program: what other nodes, and the caller of `run`, read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sgc_ir.errors import SgcError
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.state import FinishedState, SubProgramHandle, finished
from sgc_runtime.executor.stream import Stream


class UnsetVariable(SgcError):
    """A variable that the path that was taken does not set; nobody has read it yet."""


class Running(Protocol):
    """A graph whose nodes have all been started."""

    root: Stream
    result: Cell
    variables: Mapping[str, Pending]

    def when_written(self, then: Callable[[], None]) -> None: ...


class Handle(SubProgramHandle):
    """A sub-program, started or about to be.

    Attributes:
        frame: gets the `Running` graph.
        root: gets the heart of its stream, as soon as there is one.
    """

    __slots__ = ("frame", "root")

    def __init__(self) -> None:
        self.frame = Cell()
        self.root = Cell()

    def variable(self, name: str, missing: Callable[[Stream], BaseException]) -> Pending:
        """Variable `name` at the sub-program's end; `missing` makes the error when it has none."""
        pending = Pending(name)

        def given(running: Running, source: Pending, value: Cell) -> None:
            if isinstance(value.error, UnsetVariable):
                pending.fail(missing(running.root))
            else:
                source.meta.forward(pending.meta)
                value.forward(pending.value)

        def found(running: Running) -> None:
            source = running.variables.get(name)
            if source is None:
                pending.fail(missing(running.root))
                return
            source.value.then(lambda cell: given(running, source, cell))

        self._when_started(found, pending.fail)
        return pending

    def read(self, field: str) -> Cell:
        """`text`, `messages` or `result` of the finished sub-program."""
        cell = Cell()

        def found(running: Running) -> None:
            if field == "result":
                running.result.forward(cell)
                return
            read = running.root.messages if field == "messages" else running.root.text
            running.when_written(lambda: read().forward(cell))

        self._when_started(found, cell.fail)
        return cell

    def _when_started(
        self, found: Callable[[Running], None], failed: Callable[[BaseException], None]
    ) -> None:
        self.frame.then(lambda cell: failed(cell.error) if cell.error else found(cell.value))

    def state(self) -> FinishedState:
        """The finished sub-program; to be called when the row has ended."""
        if self.frame.error is not None:
            return FinishedState.failed(self.frame.error, mode="compiled")
        running: Running = self.frame.value
        scope = running.root.scope
        return FinishedState(
            running.root,
            variables=running.variables,
            value=finished(running.result.value),
            error=running.root.ctx.first_error(scope.prefix),
            mode="compiled",
            usage=scope.usage,
        )
