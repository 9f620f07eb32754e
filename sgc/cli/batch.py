"""Runs rows: reads ahead of the running ones, starts each, and hands over what finishes.

Not the runner of `sgc.batch`, because it pushes where that one is pulled: rows come from a thread
of their own (standard input may block for long), are handed over as they finish (the journal and
the output put them into order, on the disk), and an interrupt or a tick may come between any two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any

from sgc.cli.inputs import Row
from sgc_runtime.executor.loop import submit

TICK_S = 0.5  # how often `tick` is called
ROWS_AHEAD = 16  # rows that may begin beyond the oldest unfinished one, as a multiple of parallel
LEAST_AHEAD = 1024

Start = Callable[[Row], Coroutine[Any, Any, Any]]


class RowBatch:
    """At most `parallel` rows at a time, started in the order in which they come; all callbacks on
    one thread.

    Memory is bounded whatever the number of rows: input is read at most `parallel` rows ahead of
    the started ones, and no row begins more than `max(LEAST_AHEAD, ROWS_AHEAD * parallel)` rows
    after the oldest one that has not finished, behind which finished ones wait for their turn in
    the output.

    Args:
        start: gives the coroutine that runs a row; what it raises is the row's outcome.
        finished: called with a row and its outcome (a result or an exception).
        tick: called every `TICK_S` seconds.
    """

    def __init__(
        self,
        start: Start,
        finished: Callable[[Row, Any], None],
        tick: Callable[[], None],
        parallel: int,
    ) -> None:
        self._start = start
        self._finished = finished
        self._tick = tick
        self._next_tick = time.monotonic() + TICK_S
        self._room = threading.Semaphore(parallel)
        self._ahead = max(LEAST_AHEAD, ROWS_AHEAD * parallel)
        self._begun = 0
        self._places: dict[int, int] = {}  # of running rows among the begun ones, oldest first
        self._owed = 0  # rows that ended and whose place nobody has got yet
        self._events: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()
        self._running: dict[int, Future[Any]] = {}
        self._stopped = False

    def run(self, rows: Iterable[Row]) -> None:
        """Run all rows. Raises what reading them raises, after the rows before have finished."""
        threading.Thread(target=self._read, args=(rows,), name="sgc-rows", daemon=True).start()
        reading, failure = True, None
        try:
            while reading or self._running:
                kind, row, outcome = self._next_event()
                if kind == "row":
                    self._begin(row)
                elif kind == "done":
                    self._end(row, outcome)
                elif kind == "end":
                    reading, failure = False, outcome
                elif kind == "interrupt":
                    raise KeyboardInterrupt
        finally:
            self._stop()
        if failure is not None:
            raise failure

    def interrupt(self) -> None:
        """Make `run` raise KeyboardInterrupt after what has finished; for a signal handler."""
        self._events.put(("interrupt", None, None))

    def _next_event(self) -> tuple[str, Any, Any]:
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            self._tick()
        try:
            return self._events.get(timeout=max(self._next_tick - now, 0.0))
        except Empty:
            return "tick", None, None

    def _read(self, rows: Iterable[Row]) -> None:
        # A thread of its own: standard input may block for long while finished rows wait.
        failure: Exception | None = None
        try:
            iterator = iter(rows)
            while self._room.acquire() and not self._stopped:
                row = next(iterator, None)
                if row is None:
                    break
                self._events.put(("row", row, None))
        except Exception as error:
            failure = error  # raised by `run`
        self._events.put(("end", None, failure))

    def _begin(self, row: Row) -> None:
        future = submit(self._start(row))
        self._running[row.index] = future
        self._places[row.index] = self._begun
        self._begun += 1
        future.add_done_callback(lambda done: self._events.put(("done", row, done)))

    def _end(self, row: Row, future: Future[Any]) -> None:
        del self._running[row.index], self._places[row.index]
        self._owed += 1
        self._give_room()
        error = future.exception()
        self._finished(row, future.result() if error is None else error)

    def _give_room(self) -> None:
        oldest = next(iter(self._places.values()), self._begun)
        # Rows that were read and have not begun count as begun: there are at most `parallel`.
        if self._begun - oldest < self._ahead:
            self._room.release(self._owed)
            self._owed = 0

    def _stop(self) -> None:
        self._stopped = True
        self._room.release()  # the reader looks at `_stopped`
        for future in self._running.values():
            future.cancel()
