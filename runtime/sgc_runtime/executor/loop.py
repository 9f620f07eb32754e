"""The one background thread whose event loop drives all streams of the process."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def runtime_loop() -> asyncio.AbstractEventLoop:
    """The runtime's event loop; its daemon thread starts with the first call."""
    global _loop, _thread
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_loop.run_forever, name="sgc-runtime", daemon=True)
            _thread.start()
        return _loop


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
    """Call `fn(*args)` on the runtime's thread, soon, in the order of posting."""
    runtime_loop().call_soon_threadsafe(fn, *args)


def call(fn: Callable[..., T], *args: Any) -> T:
    """Call `fn(*args)` on the runtime's thread and give back what it gives."""
    if in_runtime_thread():
        return fn(*args)
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def invoke() -> None:
        try:
            future.set_result(fn(*args))
        except BaseException as error:
            future.set_exception(error)

    runtime_loop().call_soon_threadsafe(invoke)
    return future.result()


def _forget_after_fork() -> None:
    global _lock, _loop, _thread
    _lock, _loop, _thread = threading.Lock(), None, None


os.register_at_fork(after_in_child=_forget_after_fork)
