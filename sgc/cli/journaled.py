"""The output of a run that keeps a journal: a line goes into it once the journal has it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from sgc.cli.failure import CommandError
from sgc_runtime.journal.journal import Journal
from sgc_runtime.journal.store import Line, sync_folder
from sgc_runtime.line_file import LineFile

_BLOCK_ROWS = 1000  # lines that are read from the journal at once


class JournaledOutput:
    """Rows in index order; those behind a gap wait in the journal, not in memory.

    A resumed run puts a new file, with the rows that are there in order, in place of the old one
    before it goes on. Rows are put down on the journal's writing thread. A failed write raises
    CommandError there, which the journal gives to whoever uses it next; the file then ends with
    its last whole line.
    """

    def __init__(self, path: Path, journal: Journal) -> None:
        self._path = Path(os.path.realpath(path))
        self._name = str(path)
        self._journal = journal
        self._lock = Lock()
        self._next = 0
        self._closed = False
        self._file: LineFile | None = None
        journal.start(self._take)
        self._guarded(self._rewrite if journal.resumed else self._open)

    def put(self, index: int, line: str, failed: bool) -> None:
        """Take the line (without its end) of row `index`."""
        self._journal.finish_row(index, line, failed)

    def check(self) -> None:
        """Raise the JournalError or CommandError that has ended the writing, if any did."""
        self._journal.check()

    def close(self, wait_s: float = -1) -> None:
        """Put down what is finished, also behind a gap, in index order. Does so once.

        Args:
            wait_s: how long to wait for the disk; -1 is for ever.
        """
        self._journal.flush(None if wait_s < 0 else wait_s)
        if not self._lock.acquire(timeout=wait_s):
            return
        try:
            if not self._closed:
                self._guarded(self._write_rest)
                self._closed = True
        finally:
            self._lock.release()

    def finish(self, all_good: bool) -> None:
        """The run has ended: bring the rows to the disk; where all are good, nobody needs the
        journal any more. Raises what has ended the writing before."""
        self.check()
        if all_good:
            self._guarded(self._sync)
        self._journal.close(delete=all_good)

    # -- below, the lock is held

    def _open(self) -> None:
        self._file = LineFile(self._path, "w")

    def _rewrite(self) -> None:
        part = self._path.with_name(f".{self._path.name}.part")
        self._file = LineFile(part, "w")
        try:
            self._write_on({})
            if self._path.exists():
                shutil.copymode(self._path, part)
            self._file.sync()
            os.replace(part, self._path)
        finally:
            part.unlink(missing_ok=True)

    def _take(self, lines: Sequence[Line]) -> None:
        with self._lock:
            ready = {line.row: line.text for line in lines}
            if not self._closed and self._next in ready:
                self._guarded(lambda: self._write_on(ready))

    def _write_on(self, ready: Mapping[int, str]) -> None:
        """Write what is gapless: lines of `ready`, then those that waited in the journal."""
        texts = []
        while (text := ready.get(self._next)) is not None:
            texts.append(text)
            self._next += 1
        self._write(texts)
        while self._journal.line(self._next) is not None:
            block = self._journal.lines(self._next, _BLOCK_ROWS)
            gapless = [line.text for n, line in enumerate(block) if line.row == self._next + n]
            self._next += len(gapless)
            self._write(gapless)

    def _write_rest(self) -> None:
        while block := self._journal.lines(self._next, _BLOCK_ROWS):
            self._write(line.text for line in block)
            self._next = block[-1].row + 1

    def _write(self, texts: Iterable[str]) -> None:
        assert self._file is not None
        self._file.write("".join(text + "\n" for text in texts))

    def _sync(self) -> None:
        assert self._file is not None
        self._file.sync()
        sync_folder(self._path)

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._closed = True
            cause = f"cannot write {self._name}: {error.strerror or error}"
            raise CommandError(cause, "make room, then go on with --resume") from error
