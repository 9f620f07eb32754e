"""Threads that run program bodies: one each, so that a body may wait for another one."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from sgc_runtime.executor.loop import runtime_loop

Outcome = tuple[Any, BaseException | None]


def start_body(
    run: Callable[[], Any], name: str, context: contextvars.Context
) -> asyncio.Future[Outcome]:
    """Run `run` in a daemon thread of its own, in a copy of `context`.

    To be called on the runtime's loop. The future gets what `run` returned and what it raised.
    """
    loop = runtime_loop()
    future: asyncio.Future[Outcome] = loop.create_future()

    def finish(outcome: Outcome) -> None:
        if not future.cancelled():
            future.set_result(outcome)

    def work() -> None:
        outcome: Outcome = None, None
        try:
            outcome = context.copy().run(run), None
        except BaseException as error:  # SystemExit too: it ends the body, not the process
            outcome = None, error
        loop.call_soon_threadsafe(finish, outcome)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future
