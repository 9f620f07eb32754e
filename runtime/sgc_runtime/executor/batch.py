"""Many rows at once: bounded, in order, from an iterable of any length."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar

Row = TypeVar("Row")
Result = TypeVar("Result")

_END: Any = object()


async def run_rows(
    rows: Iterable[Row],
    start: Callable[[int, Row], Awaitable[Result]],
    parallel: int,
    ahead: int | None = None,
) -> AsyncIterator[Result]:
    """Results of `start(index, row)` in row order, at most `parallel` running at a time.

    Rows are taken one by one, when there is room; at most `ahead` rows (default: four times
    `parallel`) are taken and not yet given out, so memory stays bounded however slow one of them
    is. Rows that are no list or tuple are taken on another thread, since that may block. What
    `start` raises is raised here, in row order; then, and when the iterator is closed or
    cancelled, the rows that still run are cancelled and awaited.

    Raises ValueError when `parallel` is below 1.
    """
    if parallel < 1:
        raise ValueError(f"parallel={parallel}; at least one row must run at a time")
    most = max(parallel, 4 * parallel if ahead is None else ahead)
    taken: deque[asyncio.Task[Result]] = deque()  # in row order, not yet given out
    running: set[asyncio.Task[Result]] = set()
    source = enumerate(rows)
    blocking = not isinstance(rows, list | tuple)
    more = True
    try:
        while True:
            while more and len(running) < parallel and len(taken) < most:
                item = await _next(source, blocking)
                if item is _END:
                    more = False
                    break
                task = asyncio.ensure_future(start(*item))
                taken.append(task)
                running.add(task)
                running = {task for task in running if not task.done()}
            if not taken:
                return
            if taken[0].done():
                yield taken.popleft().result()
            else:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            running = {task for task in running if not task.done()}
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _next(source: Iterator[Any], blocking: bool) -> Any:
    return await asyncio.to_thread(next, source, _END) if blocking else next(source, _END)
