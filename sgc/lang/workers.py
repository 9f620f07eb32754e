"""Threads that run program bodies: one for each body that runs, so that one may wait for another.

A thread that has run a body waits a while for the next one: starting a thread costs more than a
short body does.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from sgc_runtime.executor.loop import post, runtime_loop

Outcome = tuple[Any, BaseException | None]
IDLE_S = 10.0  # a thread without a body ends after that time
MAX_IDLE = 64


class _Job(NamedTuple):
    run: Callable[[], Any]
    name: str
    context: contextvars.Context
    future: asyncio.Future[Outcome]


def start_body(
    run: Callable[[], Any], name: str, context: contextvars.Context
) -> asyncio.Future[Outcome]:
    """Run `run` in a daemon thread that runs nothing else meanwhile, in a copy of `context`.

    To be called on the runtime's loop. The future gets what `run` returned and what it raised.
    """
    future: asyncio.Future[Outcome] = runtime_loop().create_future()
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.jobs.put(_Job(run, name, context, future))
    return future


class _Worker:
    """One thread and the body that it gets next."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        threading.Thread(target=self._work, name="sgc-body", daemon=True).start()

    def _work(self) -> None:
        thread = threading.current_thread()
        while (job := self._next()) is not None:
            thread.name = job.name
            outcome = _outcome(job)
            stays = len(_idle) < MAX_IDLE
            if stays:
                _idle.append(self)  # before the end is told: who waits for it may need a thread
            post(_finish, job.future, outcome)
            if not stays:
                return
            del job, outcome  # what the body held is not to live as long as the thread

    def _next(self) -> _Job | None:
        try:
            return self.jobs.get(timeout=IDLE_S)
        except Empty:
            pass
        try:
            _idle.remove(self)
        except ValueError:  # taken just now
            return self.jobs.get()
        return None


def _outcome(job: _Job) -> Outcome:
    try:
        return job.context.copy().run(job.run), None
    except BaseException as error:  # SystemExit too: it ends the body, not the process
        return None, error


def _finish(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.cancelled():
        future.set_result(outcome)


_idle: list[_Worker] = []  # its operations are atomic: several threads use it
os.register_at_fork(after_in_child=_idle.clear)
