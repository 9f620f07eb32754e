"""Runs rows side by side, a bounded number at a time, and gives their states in order.

Not the runner of `sgc.cli.batch`, because it is pulled where that one pushes: rows are taken from
the caller's iterable on the caller's own thread, no further than the caller has got, and states
are given in order to a consumer that may stop at any of them.
"""

from __future__ import annotations

import concurrent.futures
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sized
from queue import SimpleQueue
from typing import Any

from sgc.progress import RowProgress
from sgc_runtime.executor.loop import submit
from sgc_runtime.executor.state import FinishedState

Start = Callable[[int, Any], Coroutine[Any, Any, FinishedState]]
Future = concurrent.futures.Future[FinishedState]
ROWS_AHEAD = 4  # started rows that were not handed out yet, as a multiple of `parallel`
END_WAIT_S = 1.0  # for cancelled rows


def run_rows(
    rows: Iterable[Any],
    start: Start,
    parallel: int,
    progress: bool,
    lazy: bool,
    total: int | None = None,
) -> Iterator[FinishedState]:
    """States of all rows in order; at most `parallel` rows run at the same time.

    Args:
        total: how many rows there are, where that is known and `rows` does not say so.
        start: coroutine function of row index and row, for the runtime's loop.
        lazy: take rows only as far as the consumer gets, at most `ROWS_AHEAD * parallel` ahead
            of the row that it waits for, instead of as fast as they finish.
    """
    total = len(rows) if isinstance(rows, Sized) else total
    window = _Window(enumerate(rows), start, parallel, parallel * ROWS_AHEAD if lazy else None)
    shown = RowProgress(total) if progress else None
    try:
        while (future := window.next()) is not None:
            state = future.result()
            if shown is not None:
                shown.add(state)
            yield state
    finally:
        window.cancel()
        if shown is not None:
            shown.close()


class _Window:
    """Rows that have been started and not been handed out."""

    def __init__(
        self, rows: Iterator[tuple[int, Any]], start: Start, parallel: int, limit: int | None
    ) -> None:
        self._rows = rows
        self._start = start
        self._parallel = parallel
        self._limit = limit
        self._order: deque[Future] = deque()
        self._ended: SimpleQueue[Future] = SimpleQueue()
        self._running = 0
        self._more = True

    def next(self) -> Future | None:
        """The next row in order, finished; None after the last one."""
        self._fill()
        while self._order and not self._order[0].done():
            self._ended.get()
            self._running -= 1
            self._fill()
        return self._order.popleft() if self._order else None

    def _fill(self) -> None:
        while not self._ended.empty():
            self._ended.get()
            self._running -= 1
        while self._more and self._running < self._parallel and self._has_room():
            item = next(self._rows, None)
            if item is None:
                self._more = False
                return
            future = submit(self._start(*item))
            self._order.append(future)
            self._running += 1
            future.add_done_callback(self._ended.put)

    def _has_room(self) -> bool:
        return self._limit is None or len(self._order) < self._limit

    def cancel(self) -> None:
        """Stop what still runs; waits a moment for it to end."""
        left = [future for future in self._order if not future.done()]
        for future in left:
            future.cancel()
        concurrent.futures.wait(left, timeout=END_WAIT_S)
