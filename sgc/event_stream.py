"""A run as an iterator of the pieces of text that it generates."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from queue import SimpleQueue
from typing import Any

from sgc_ir.errors import SgcError
from sgc_runtime.executor.event import Event
from sgc_runtime.executor.loop import submit
from sgc_runtime.executor.state import FinishedState

Start = Callable[[Callable[[Event], None]], Coroutine[Any, Any, FinishedState]]


class EventStream(Iterator[Event]):
    """Events of one run in the order in which they came.

    The run starts at once. Iterating ends with the run and raises its error; `close`, or leaving a
    `with` block, stops it.
    """

    def __init__(self, start: Start) -> None:
        self._arrived: SimpleQueue[Event | None] = SimpleQueue()
        self._future = submit(start(self._arrived.put))
        self._future.add_done_callback(lambda _: self._arrived.put(None))
        self._ended = False

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        event = None if self._ended else self._arrived.get()
        if event is not None:
            return event
        self._ended = True
        if not self._future.cancelled():
            error = self._future.result().error()
            if error is not None:
                raise error
        raise StopIteration

    @property
    def state(self) -> FinishedState:
        """The finished state; waits for the run's end. Raises SgcError when it was stopped."""
        if self._future.cancelled():
            raise SgcError("the run was stopped before its end; iterate to the end first")
        return self._future.result()

    def close(self) -> None:
        """Stop the run, unless it has ended."""
        self._future.cancel()
        self._ended = True

    def __enter__(self) -> EventStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
