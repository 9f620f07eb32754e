"""The one background thread whose event loop drives all streams of the process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Answer = Callable[[Any, BaseException | None], None]  # gives a value or an error

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_posted: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
_due = False  # whether the loop has been told of what is posted


def runtime_loop() -> asyncio.AbstractEventLoop:
    """The runtime's event loop; its daemon thread starts with the first call."""
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(
                target=_drive, args=(_loop,), name="sgc-runtime", daemon=True
            )
            _thread.start()
        return _loop


def _drive(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop for ever. A SystemExit or KeyboardInterrupt in a task or callback belongs to who
    waits for it: it stops the loop, on which all other streams depend, for a moment only."""
    while not loop.is_closed():
        with suppress(SystemExit, KeyboardInterrupt):
            loop.run_forever()
            return


def in_runtime_thread() -> bool:
    """Whether the caller runs on the runtime's event loop."""
    return _thread is threading.current_thread()


def submit(coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
    """Start `coro` on the runtime's loop; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(coro, runtime_loop())


def run_sync(coro: Coroutine[Any, Any, T]) -> T:
    """Run `coro` on the runtime's loop and wait for it; works inside a running event loop too.

    A KeyboardInterrupt (any exception) in the waiting thread cancels `coro` and waits for it to
    end. Raises RuntimeError on the runtime's own thread, where waiting would never end.
    """
    if in_runtime_thread():
        coro.close()
        raise RuntimeError("run_sync on the runtime's own thread; await the coroutine instead")
    future = submit(coro)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            concurrent.futures.wait([future], timeout=1.0)
        raise


async def wrap(coro: Coroutine[Any, Any, T]) -> T:
    """Await `coro` from any event loop while it runs on the runtime's; cancelling passes on."""
    if in_runtime_thread():
        return await coro
    return await asyncio.wrap_future(submit(coro))


def post(fn: Callable[..., Any], *args: Any) -> None:
    """Call `fn(*args)` on the runtime's thread, soon, in the order of posting.

    What is posted while an earlier post has not been run yet goes with it: the loop is woken once
    for all of it. What `fn` raises goes to the loop's exception handler.
    """
    _posted.append((fn, args))
    _wake()


def call(fn: Callable[..., T], *args: Any) -> T:
    """Call `fn(*args)` on the runtime's thread, after what was posted before, and give back what
    it gives."""
    if in_runtime_thread():
        return fn(*args)

    def begin(answer: Answer) -> None:
        try:
            value = fn(*args)
        except BaseException as error:
            answer(None, error)
        else:
            answer(value, None)

    result: T = ask(begin)
    return result


def ask(begin: Callable[[Answer], None]) -> Any:
    """Call `begin(answer)` on the runtime's thread, after what was posted before, and wait until
    `answer(value, error)` is called; gives the value or raises the error.

    Raises RuntimeError on the runtime's own thread, where waiting would never end.
    """
    if in_runtime_thread():
        raise RuntimeError("ask on the runtime's own thread, which nobody else can answer")
    answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
    post(begin, lambda value, error: answers.put((value, error)))
    value, error = answers.get()
    if error is not None:
        raise error
    return value


def _wake() -> None:
    global _due
    if not _due:
        _due = True  # two threads may both get here: the second wake-up finds nothing to do
        runtime_loop().call_soon_threadsafe(_run_posted)


def _run_posted() -> None:
    global _due
    _due = False  # before the look at the queue: what is posted after it wakes the loop again
    for _ in range(len(_posted)):
        fn, args = _posted.popleft()
        try:
            fn(*args)
        except BaseException as error:  # as the loop itself does: the others must still be run
            context = {"message": f"posted {fn!r:.60} failed", "exception": error}
            runtime_loop().call_exception_handler(context)


def _forget_after_fork() -> None:
    global _lock, _loop, _thread, _due
    _lock, _loop, _thread, _due = threading.Lock(), None, None, False
    _posted.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
