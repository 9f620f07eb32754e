"""Tries a call as often and as long as a policy says, whether or not it lets itself be ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from sgc_ir.errors import BackendError, DeadlineError
from sgc_runtime.executor.answers import BadAnswer
from sgc_runtime.executor.policy import GaveUp, Policy, may_pass, pause_s

T = TypeVar("T")
CANCEL_S = 0.05  # a cancelled attempt may take so long to end; then it is left alone

_left_alone: set[asyncio.Task[Any]] = set()  # kept alive: the loop itself holds no references


async def attempts(
    once: Callable[[], Coroutine[Any, Any, T]],
    policy: Policy,
    left_alone: Callable[[], object] | None = None,
) -> T:
    """What `once()` gives, tried as often and as long as `policy` says.

    `left_alone` is called when an attempt goes on although it was cancelled.
    """
    number = 1
    while True:
        try:
            return await _within(policy.deadline, once, left_alone)
        except BadAnswer:
            raise  # the stream has gone on with it
        except Exception as error:
            if number <= policy.retries and may_pass(error):
                pause = pause_s(number)
            elif number == 1:
                raise
            else:
                raise GaveUp(error, number) from error
        await asyncio.sleep(pause)
        number += 1


async def _within(
    deadline: float | None,
    once: Callable[[], Coroutine[Any, Any, T]],
    left_alone: Callable[[], object] | None,
) -> T:
    if deadline is None:
        return await _uncancelled(once())
    task = asyncio.get_running_loop().create_task(once())
    try:
        done, _ = await asyncio.wait({task}, timeout=deadline)
    except asyncio.CancelledError:
        _leave(task)
        raise
    if not done:
        _leave(task)
        await asyncio.wait({task}, timeout=CANCEL_S)
        if not task.done() and left_alone is not None:
            left_alone()
        if not task.done() or task.cancelled():
            raise DeadlineError(f"took longer than its deadline of {deadline:g} s")
    return await _uncancelled(task)  # perhaps an answer that came while it was being cancelled


async def _uncancelled(work: Awaitable[T]) -> T:
    """What `work` gives; that it is cancelled from inside is a fault of a backend or tool."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise BackendError("the call was cancelled by what should have answered it") from None


def _leave(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for it no more."""
    task.cancel()
    _left_alone.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Task[Any]) -> None:
    _left_alone.discard(task)
    if not task.cancelled():
        task.exception()  # seen: nobody waits for it
