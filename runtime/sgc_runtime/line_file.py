"""A file that grows by whole lines: of a write that fails, none of its bytes stay."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Literal


class LineFile:
    """Written without a buffer, so that what `write` was given is in the file when it returns.

    Args:
        mode: `w` begins with an empty file, `a` goes on behind what is there.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Literal["w", "a"]) -> None:
        self._file = FileIO(os.fspath(path), "a")  # each write goes to the end, whoever else writes
        if mode == "w" and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.truncate(0)

    def write(self, lines: str) -> None:
        """Write lines with their ends. Raises OSError; the file then ends as it did before."""
        data = memoryview(lines.encode())
        written = 0
        try:
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError:
            if written:
                self._cut(written)
            raise

    def _cut(self, num_bytes: int) -> None:
        with suppress(OSError):  # from a pipe, or a disk that is gone, nothing can be taken back
            self._file.truncate(self._file.tell() - num_bytes)

    def sync(self) -> None:
        """Bring it to the disk. Raises OSError."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


def cut_torn_line(path: str | os.PathLike[str]) -> None:
    """Cut off what a crash left behind the last line's end. Raises OSError."""
    with open(Path(path), "rb+") as file:
        size = at = file.seek(0, os.SEEK_END)
        while at > 0:
            begin = max(at - _BLOCK_BYTES, 0)
            file.seek(begin)
            found = file.read(at - begin).rfind(b"\n")
            if found >= 0:
                at = begin + found + 1
                break
            at = begin
        if at < size:
            file.truncate(at)


_BLOCK_BYTES = 65536
