"""Daemon threads for tools: a bounded number, not counting those whose tool nobody waits for."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Job:
    """One function call on a tool thread.

    Attributes:
        future: gets what the function gives or raises; belongs to the event loop of `submit`.
    """

    __slots__ = ("abandoned", "future", "loop", "running", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.running = False
        self.abandoned = False

    def settle(self, value: Any, error: BaseException | None) -> None:
        """Called on the event loop."""
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)


class ToolThreads:
    """At most `limit` threads at work; further jobs wait in order.

    Python cannot end a thread. A job that is abandoned while it runs keeps its thread until it
    ends, but gives up its place, so that tools that hang do not hold up others. The threads are
    daemons: the process ends without them.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._threads = 0  # without those of abandoned jobs
        self._idle = 0

    def submit(self, work: Callable[[], Any]) -> Job:
        """Call `work()` on a thread, soon. To be called on an event loop."""
        job = Job(work)
        with self._changed:
            self._jobs.append(job)
            self._staff()
            self._changed.notify()
        return job

    def abandon(self, job: Job) -> None:
        """Nobody waits for `job` any more."""
        with self._changed:
            if job.abandoned:
                return
            job.abandoned = True
            if job.running:
                self._threads -= 1
                self._staff()
            elif job in self._jobs:
                self._jobs.remove(job)

    def _staff(self) -> None:
        if len(self._jobs) > self._idle and self._threads < self._limit:
            self._threads += 1
            threading.Thread(target=self._work, name="sgc-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._jobs:
                    self._changed.wait()
                self._idle -= 1
                job = self._jobs.popleft()
                job.running = True
            if not self._call(job):
                return

    def _call(self, job: Job) -> bool:
        """Do the job. False: the thread has lost its place."""
        value, failure = None, None
        try:
            value = job.work()
        except BaseException as error:  # whatever it is, the event loop must hear of it
            failure = error
        with self._changed:
            job.running = False
            if job.abandoned:
                return False
        if not job.loop.is_closed():
            job.loop.call_soon_threadsafe(job.settle, value, failure)
        return True
