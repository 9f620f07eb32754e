"""The engine's thread: takes requests from any thread, steps while there is work, sleeps else."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from sgc_ir.errors import BackendError
from sgc_runtime.engine.bursts import Bursts, FirstStep
from sgc_runtime.engine.core import EngineCore, broken
from sgc_runtime.engine.prefill_ahead import AheadJob
from sgc_runtime.engine.profile import NO_PROFILE, Profiling
from sgc_runtime.engine.request import Outcome, Request, State
from sgc_runtime.model.devices import use_device

Post = partial[None]

_EXIT_TIMEOUT_S = 30.0  # a process that ends in the middle of a step aborts


class Engine:
    """Runs an `EngineCore`; its methods may be called from any thread and return at once.

    `Request.on_done` and a watcher's `on_text` are called in the engine's thread; they hand over
    with `post`, which gathers a step's results into one call to each event loop.

    Args:
        device: what `core` computes on, where that is to be told to the thread.
        profile: keeps where the time of the steps goes.

    Attributes:
        is_busy: whether it steps, for those who are to delay no step.
    """

    def __init__(
        self,
        core: EngineCore,
        device: torch.device | None = None,
        profile: Profiling = NO_PROFILE,
    ) -> None:
        self.core = core
        self._device = device
        self._profile = profile
        self.is_busy = False
        self._inbox: deque[Post] = deque()
        self._mail: dict[asyncio.AbstractEventLoop, list[Post]] = {}
        self._wake = threading.Condition()
        self._closing = False
        self._bursts, self._rests = Bursts(self._wake), True
        self._first_step = FirstStep(core.scheduler.prefill_tokens)
        self._thread = threading.Thread(target=self._run, name="sgc-engine", daemon=True)
        self._thread.start()
        atexit.register(_close_at_exit, weakref.ref(self))

    def submit(
        self, requests: Sequence[Request], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        """Queue requests together, so that the same step sees all of them.

        Args:
            loop: the event loop that runs this; the engine, if it rests, waits a moment for what
                else the loop is about to send.
        """
        if not self._send_if_open(partial(self._add, tuple(requests)), loop):
            raise BackendError("the engine is closed; make a new backend")

    def cancel(self, requests: Sequence[Request]) -> None:
        """Drop requests that nobody waits for; within one step their slots are free."""
        self._send_if_open(partial(self._cancel, tuple(requests)))

    def compute_ahead(self, job: AheadJob) -> None:
        """Compute a beginning of a prompt, whenever nothing else is to be done."""
        self._send_if_open(partial(self.core.compute_ahead, job))

    def post(
        self, loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *args: Any
    ) -> None:
        """Have `callback` called on `loop` after this step (engine thread only)."""
        self._mail.setdefault(loop, []).append(partial(callback, *args))

    def close(self, timeout_s: float = 1.0) -> None:
        """End the thread after the step in progress; what is unfinished fails with BackendError.

        Waits for the thread, but no longer than `timeout_s`.
        """
        with self._wake:
            self._closing = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=timeout_s)

    # -- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        reason = BackendError("the engine was closed")
        try:
            if self._device is not None:
                use_device(self._device)
            self._loop()
        except Exception as exc:  # a law of the scheduler is broken: say so to all who wait
            reason = broken("the engine broke down", exc)
        self._fail_all(reason)
        self._deliver()
        with suppress(Exception):  # of a device that has failed: those who wait have been told
            self.core.close()

    def _loop(self) -> None:
        while self._receive(wait=not self.is_busy):
            self.is_busy = True
            with self._profile.step():
                self.is_busy = self.core.step()
                self._rests = self.core.rests  # before those who wait are told
                with self._profile.span("output"):
                    self._deliver()
            if not self.is_busy:
                self._profile.rest()

    def _receive(self, wait: bool) -> bool:
        """Carry out what was sent; False when the engine closes."""
        with self._wake:
            while wait and not self._inbox and not self._closing:
                self._wake.wait()
            if self._rests and not self._closing:
                self._bursts.wait()
            if self._closing:
                return False
        self._first_step.begin()
        while self._inbox and not (self._rests and self._first_step.is_full):
            self._inbox.popleft()()
        return True

    def _deliver(self) -> None:
        mail, self._mail = self._mail, {}
        for loop, posts in mail.items():
            try:
                loop.call_soon_threadsafe(_call_all, posts)
            except RuntimeError:  # the loop was closed: nobody waits for these results
                continue

    def _send_if_open(self, command: Post, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        with self._wake:
            if not self._closing:
                sleeps = not self._inbox
                self._inbox.append(command)
                if loop is not None and self._rests:
                    self._bursts.sent(loop)
                    if sleeps:  # else the end of the burst is told
                        self._wake.notify()
                else:
                    self._wake.notify()
            return not self._closing

    def _add(self, requests: Sequence[Request]) -> None:
        if self._rests:
            self._first_step.add(requests)
        self.core.add(*requests)

    def _cancel(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.core.cancel(request)

    def _fail_all(self, reason: BackendError) -> None:
        with self._wake:
            self._closing = True
        # Not what the scheduler has: one that broke down may have lost some.
        unanswered = list(self.core.open)
        while self._inbox:
            command = self._inbox.popleft()
            if command.func == self._add:
                unanswered += command.args[0]
        for request in unanswered:
            request.state = State.DONE
            request.on_done(request, Outcome(error=reason))


def _call_all(posts: Sequence[Post]) -> None:
    for post in posts:
        post()


def _close_at_exit(engine: weakref.ref[Engine]) -> None:
    living = engine()
    if living is not None:
        living.close(_EXIT_TIMEOUT_S)
