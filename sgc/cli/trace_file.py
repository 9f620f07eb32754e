"""A file in the JSON trace event format that can be read at any time while it grows."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from sgc.cli.failure import CommandError
from sgc.cli.output import writing

RUN = b'{"name":"sgc run","ph":"i"'  # how the event begins with which each run begins
PROCESSES_A_RUN = 10**8  # numbers of processes that one run may use

_BUFFER_BYTES = 1 << 16


class TraceFile:
    """Events, one a line, in an array that the format lets stay open.

    What has been flushed can be read whatever becomes of the process. Methods may be called from
    any thread; a write that failed is raised by `check` and `close`, and later events are dropped.

    Args:
        append: go on behind the runs that the file holds, if it is there.

    Attributes:
        first_process: numbers of processes from here on are this run's own.

    Raises CommandError when the file cannot be written, or is no such trace.
    """

    def __init__(self, path: Path, append: bool = False) -> None:
        self._path = path
        self._lock = Lock()
        self._lines: list[bytes] = []
        self._num_bytes = 0
        self._failure: OSError | None = None
        self._closed = False
        self._epoch_us = round((time.time() - time.perf_counter()) * 1e6)
        with writing(path):
            runs = self._open(append)
        self.first_process = runs * PROCESSES_A_RUN

    def _open(self, append: bool) -> int:
        """Open the file; how many runs it holds."""
        runs, end = _find_end(self._path) if append else (0, 0)
        self._file: BinaryIO = open(self._path, "r+b" if end else "wb", buffering=0)
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.truncate(end)
            self._file.seek(end)
        self._separator = b",\n" if end else b"[\n"
        return runs

    def microseconds(self, seconds: float) -> int:
        """Time of the file, since 1970, for a time of `perf_counter` (of any process here)."""
        return round(seconds * 1e6) + self._epoch_us

    def write(self, events: Sequence[dict[str, Any]]) -> None:
        """Add events; they are in the file after the next flush."""
        lines = [json.dumps(event, separators=(",", ":")).encode() for event in events]
        with self._lock:
            self._add(lines)

    def _add(self, lines: Sequence[bytes]) -> None:
        if self._closed or self._failure is not None:
            return
        for line in lines:
            self._lines += (self._separator, line)
            self._num_bytes += len(line)
            self._separator = b",\n"
        if self._num_bytes >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        data = memoryview(b"".join(self._lines))
        self._lines.clear()
        self._num_bytes = 0
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            self._failure = error

    def check(self) -> None:
        """Flush. Raises CommandError for what has ended the writing, if anything did."""
        with self._lock:
            if not self._closed:
                self._flush()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            with writing(self._path):
                raise self._failure

    def close(self, wait_s: float = -1) -> None:
        """Close the array and the file, waiting at most `wait_s` seconds for another thread that
        writes (-1 is for ever). Does so once."""
        if not self._lock.acquire(timeout=wait_s):
            return
        try:
            if self._closed:
                return
            if self._failure is None:
                self._lines.append(b"[\n]\n" if self._separator == b"[\n" else b"\n]\n")
                self._flush()
            self._closed = True
            with suppress(OSError):
                self._file.close()
        finally:
            self._lock.release()
        self._raise_failure()


def _find_end(path: Path) -> tuple[int, int]:
    """How many runs a trace holds, and where its last whole event ends; (0, 0): it holds none."""
    if not path.is_file() or not path.stat().st_size:
        return 0, 0
    runs = end = 0
    with path.open("rb") as file:
        if file.readline().strip() != b"[":
            raise _no_trace(path)
        while line := file.readline():
            event = line.rstrip().removesuffix(b",")
            if not _is_event(event, whole=line.endswith(b"\n")):
                break
            runs += event.startswith(RUN)
            end = file.tell() - len(line) + len(event)
    return runs, end


def _is_event(line: bytes, whole: bool) -> bool:
    if not (line.startswith(b"{") and line.endswith(b"}")):
        return False
    if whole:
        return True
    try:  # the last line may have been cut anywhere
        json.loads(line)
    except ValueError:
        return False
    return True


def _no_trace(path: Path) -> CommandError:
    cause = f"cannot go on with the trace {path}: `sgc run --trace` has not written it"
    return CommandError(cause, "give another path to --trace")
