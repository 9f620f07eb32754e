"""Ctrl-C: the process ends within two seconds whatever its threads are doing."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from sgc.cli.failure import INTERRUPTED, say

GRACE_S = 1.2  # from the signal to the forced end


class InterruptGuard:
    """While it is open, SIGINT raises KeyboardInterrupt and starts a watchdog.

    Python raises KeyboardInterrupt only between bytecodes of the main thread. Where that thread
    sits in a long call, the watchdog calls `rescue` (which writes what is finished) and ends the
    process. The signal reaches the watchdog through a socket that Python's C handler writes to.
    """

    def __init__(self, rescue: Callable[[], None]) -> None:
        self._rescue = rescue
        self._done = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._old_fd = -1

    def __enter__(self) -> InterruptGuard:
        self._old_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="sgc-interrupt", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(self._old_fd)
        signal.signal(signal.SIGINT, self._old_handler)
        self._done.set()
        self._writer.close()  # wakes the watchdog

    def _watch(self) -> None:
        while data := self._reader.recv(16):
            if signal.SIGINT in data:
                break
        else:
            return
        if not self._done.wait(GRACE_S):
            end_now(self._rescue)


def end_now(rescue: Callable[[], None]) -> None:
    """Write what is finished and end the process without waiting for any thread."""
    try:
        rescue()
    finally:
        say("sgc: error: interrupted; the finished rows are in the output")
        if sys.stdout is not None:
            sys.stdout.flush()
        os._exit(INTERRUPTED)
