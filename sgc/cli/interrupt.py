"""Ctrl-C: the process ends within two seconds whatever its threads are doing."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from sgc.cli.failure import INTERRUPTED, say

GRACE_S = 1.2  # from the signal to the forced end


class InterruptGuard:
    """While it is open, SIGINT writes what is finished and ends the process with code 130.

    Python raises KeyboardInterrupt only between bytecodes of the main thread. Where that thread
    sits in a long call, a watchdog does the work after a moment; the signal reaches it through a
    socket that Python's C handler writes to. No thread of the process is waited for.

    Attributes:
        rescue: writes what is finished; gives what to tell the user of it. May be called from
            two threads.
        ask: called by the signal in place of raising KeyboardInterrupt at any bytecode; it makes
            the main thread raise it at a place where no row is half written. None: not yet.
    """

    def __init__(self) -> None:
        self.rescue: Callable[[], str] = lambda: ""
        self.ask: Callable[[], None] | None = None
        self._done = threading.Event()
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)

    def __enter__(self) -> InterruptGuard:
        self._old_handler = signal.signal(signal.SIGINT, self._on_signal)
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="sgc-interrupt", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._end()
        signal.set_wakeup_fd(self._old_fd)
        signal.signal(signal.SIGINT, self._old_handler)
        self._done.set()
        self._writer.close()  # wakes the watchdog

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.ask is None:
            raise KeyboardInterrupt
        self.ask()

    def _watch(self) -> None:
        while data := self._reader.recv(16):
            if signal.SIGINT in data:
                break
        else:
            return
        if not self._done.wait(GRACE_S):
            self._end()

    def _end(self) -> None:
        kept = ""
        try:
            kept = self.rescue()
        finally:
            say("sgc: error: interrupted" + (f"; {kept}" if kept else ""))
            os._exit(INTERRUPTED)
