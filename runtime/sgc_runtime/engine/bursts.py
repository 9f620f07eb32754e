"""Requests that event loops send one after another belong to one burst: its first step is to have
all of them."""

from __future__ import annotations

import threading
from asyncio import AbstractEventLoop

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
