"""The thread that writes the journal: what comes within a moment goes into one commit."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from sgc_ir.errors import JournalError
from sgc_runtime.journal.entries import Batch, Entry
from sgc_runtime.journal.store import Line, Store

GATHER_S = 0.02  # from the first entry to the commit; with the commit itself below 50 ms
MAX_WAITING = 20_000  # entries; `wait_for_room` holds back who makes more
ROOM_CHECK_S = 0.02

Done = Callable[[JournalError | None], None]


class GroupCommit:
    """Takes entries from any thread and commits them in order.

    Args:
        on_lines: called on the writing thread with the lines of each commit; what it raises
            (an Exception) ends the writing like a journal that cannot be written.
    """

    def __init__(self, store: Store, on_lines: Callable[[Sequence[Line]], None]) -> None:
        self._store = store
        self._on_lines = on_lines
        self._entries: deque[Entry] = deque()
        self._waiters: deque[Done] = deque()
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._closing = False
        self._ended = False
        self.failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="sgc-journal", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Write an entry soon. Raises what ended the writing."""
        if self.failure is not None:
            raise self.failure
        self._entries.append(entry)
        if not self._wake.is_set():
            self._wake.set()

    def sync(self, done: Done) -> None:
        """Commit at once; `done` is called on the writing thread when all entries added before
        are on the disk (with None), or cannot be written."""
        self._waiters.append(done)
        self._urgent.set()
        self._wake.set()
        if self._ended:
            self._answer(self._take_waiters())

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait until all entries added before are on the disk and their lines were handed on, or
        the writing has ended; whether that was so in time."""
        done = threading.Event()
        self.sync(lambda _: done.set())
        return done.wait(timeout_s)

    def wait_for_room(self) -> None:
        """Wait while too many entries wait. Raises what ended the writing."""
        while len(self._entries) > MAX_WAITING:
            if self.failure is not None:
                raise self.failure
            time.sleep(ROOM_CHECK_S)

    def close(self, timeout_s: float | None = None) -> None:
        """Write what is left and end the thread."""
        self._closing = True
        self._urgent.set()
        self._wake.set()
        self._thread.join(timeout_s)

    # -- the writing thread

    def _run(self) -> None:
        while True:
            self._wake.wait()
            if not self._closing:
                self._urgent.wait(GATHER_S)
            self._wake.clear()
            self._urgent.clear()
            waiters = self._take_waiters()
            closing = self._closing
            self._commit()
            self._answer(waiters)
            if closing or self.failure is not None:
                self.failure = self.failure or JournalError("the journal has been closed")
                self._ended = True
                self._answer(self._take_waiters())
                return

    def _commit(self) -> None:
        entries = [self._entries.popleft() for _ in range(len(self._entries))]
        if not entries or self.failure is not None:
            return
        try:
            batch = Batch.of(entries)
            batch.write(self._store)
            if batch.lines:
                self._on_lines(batch.lines)
        except Exception as error:  # whatever it is, those who wait and the run must hear of it
            self.failure = error

    def _take_waiters(self) -> list[Done]:
        taken = []
        with suppress(IndexError):  # two threads may take at the end
            while True:
                taken.append(self._waiters.popleft())
        return taken

    def _answer(self, waiters: Sequence[Done]) -> None:
        failure = self.failure
        if failure is not None and not isinstance(failure, JournalError):
            failure = JournalError(str(failure))
        for done in waiters:
            done(failure)
