"""The way from a program body's thread to the event loop that owns its streams."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.core import StreamCore
from sgc_runtime.executor.loop import Answer, ask, call, post

T = TypeVar("T")
Operation = Callable[[], Any]


class Bridge:
    """Posts operations in order and waits for values; one for each body thread, whose
    stream has the heart `core`.

    An error that was raised into the body counts as taken by an `except` as soon as the body goes
    on with anything else; the streams that it stopped then go on too.
    """

    def __init__(self, ctx: RunContext, core: StreamCore | None = None) -> None:
        self.ctx = ctx
        self._core = core
        self._raised: Exception | None = None
        self._failure: Exception | None = None
        self._outstanding: deque[Operation] = deque()  # posted and not done yet

    def post(self, operation: Operation) -> None:
        """Run `operation` on the loop, after those posted before; returns at once.

        What it raises is raised by the next use of this bridge.
        """
        self.go_on()
        self._post(operation)

    def post_unwinding(self, operation: Operation) -> None:
        """`post` for a `with` block that an error leaves: nobody has taken that error yet."""
        self._post(operation)

    def ask(self, operation: Callable[[], T]) -> T:
        """Run `operation` on the loop, after those posted before; gives its result."""
        self.go_on()
        with _Noting(self):
            result = call(operation)
            self._check()
            return result

    def value(self, find: Callable[[], Cell]) -> Any:
        """The value of the cell that `find` gives on the loop; waits, and raises its error."""
        self.go_on()
        with _Noting(self):
            cell: Cell = ask(lambda answer: _when_done(find, answer))
            self._check()
            return cell.result()

    def known(self, find: Callable[[], Cell | None]) -> Cell | None:
        """The cell that `find`, which only looks, gives on the body's own thread, if it is done
        well and no posted operation can change what it finds; else None."""
        self.go_on()
        if self._outstanding:
            return None
        cell = find()
        return cell if cell is not None and cell.done and cell.error is None else None

    def go_on(self) -> None:
        """The body goes on, so it has taken what was raised before. Raises asyncio's
        CancelledError in a run, or a part of it, that was cancelled."""
        if self.ctx.cancelled is not None:
            raise self.ctx.cancelled
        cut = self._core.cut if self._core is not None else None
        if cut is not None:
            raise asyncio.CancelledError(str(cut)) from cut
        raised, self._raised = self._raised, None
        if raised is not None:
            call(self.ctx.acknowledge, raised)
        with _Noting(self):
            self._check()

    def ended_with(self, error: BaseException | None) -> None:
        """The body has ended, with `error` or without one: any other error has been taken."""
        if self._raised is error:
            self._raised = None
        raised, self._raised = self._raised, None
        if raised is not None:
            call(self.ctx.acknowledge, raised)

    def left_failure(self) -> Exception | None:
        """What operations raised that were posted last; to be asked on the loop, at the end."""
        failure, self._failure = self._failure, None
        return failure

    def note(self, error: Exception) -> None:
        """`error` is being raised into the body."""
        self._raised = error

    def _check(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _post(self, operation: Operation) -> None:
        self._outstanding.append(operation)
        post(self._guarded, operation)

    def _guarded(self, operation: Operation) -> None:
        try:
            operation()
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._outstanding.popleft()


def _when_done(find: Callable[[], Cell], answer: Answer) -> None:
    """Answer with the cell that `find` gives once it is done, or with what `find` raises."""
    try:
        find().then(lambda cell: answer(cell, None))
    except BaseException as error:
        answer(None, error)


class _Noting:
    """Notes the error that leaves the block."""

    __slots__ = ("_bridge",)

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self._bridge.note(error)
