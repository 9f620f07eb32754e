"""Requests that event loops send one after another belong to one burst: its first step is to have
all of them."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop
from collections.abc import Sequence

from sgc_runtime.cache.radix_tree import common_prefix
from sgc_runtime.engine.request import Request

_QUIET_TURNS = 3  # of an event loop without a request after which no more are expected
_LONGEST_S = 3e-3


class Bursts:
    """Which event loops may be about to send more.

    Those that answer results of one step, or begin together, run one after another in the same
    turn of their loop, or in one of the next: so a loop that has gone round a few times without a
    request has no more for now. For a single request that takes some 50 us, as long as the loop has
    nothing else to do; nobody waits for a clock.

    Args:
        wake: the engine's condition, which guards this as well.
    """

    def __init__(self, wake: threading.Condition) -> None:
        self._wake = wake
        self._turns: dict[AbstractEventLoop, int] = {}  # that are left

    def sent(self, loop: AbstractEventLoop) -> None:
        """A request has come from `loop`, in whose thread this is; the condition is held."""
        if loop not in self._turns:
            loop.call_soon(self._turn, loop)
        self._turns[loop] = _QUIET_TURNS

    def wait(self) -> None:
        """Wait until no more are expected, but not for long; the condition is held."""
        if self._turns and not self._wake.wait_for(lambda: not self._turns, _LONGEST_S):
            self._turns.clear()  # a loop that is busy, or will never go on

    def _turn(self, loop: AbstractEventLoop) -> None:
        with self._wake:
            left = self._turns.get(loop, 1) - 1
            if left:
                self._turns[loop] = left
                loop.call_soon(self._turn, loop)
                return
            self._turns.pop(loop, None)
            if not self._turns:
                self._wake.notify()


class FirstStep:
    """What a burst has brought for its first step: once that is full, it may begin, and the rest
    of the burst is taken while it is computed.

    Counted are the tokens of each prompt that its stream has not computed before and that do not
    begin the prompt before it. What else the cache holds of them is not looked up: so a step may
    begin with less than it could take, which costs less than to wait for all of a large burst.

    Args:
        tokens: prompt tokens that a step takes.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.begin()

    def begin(self) -> None:
        """Of another burst."""
        self._left = self._tokens
        self._last: Request | None = None

    @property
    def is_full(self) -> bool:
        return self._left <= 0

    def add(self, requests: Sequence[Request]) -> None:
        for request in requests:
            known = 0 if request.prefix is None else request.prefix.length
            if self._last is not None:
                known = max(known, common_prefix(self._last.prompt, request.prompt))
            self._left -= max(1, request.num_prompt - known)
            self._last = request
