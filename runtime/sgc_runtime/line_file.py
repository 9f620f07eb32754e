"""A file that grows by whole lines: of a write that fails, none of its bytes stay."""

from __future__ import annotations

import os
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
        self._file = FileIO(os.fspath(path), mode)
        self._can_be_cut = self._file.seekable()
        self._size = self._file.seek(0, os.SEEK_END) if self._can_be_cut else 0

    def write(self, lines: str) -> None:
        """Write lines with their ends. Raises OSError; the file then ends as it did before."""
        left = memoryview(lines.encode())
        size = len(left)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self._cut()
            raise
        self._size += size

    def _cut(self) -> None:
        if self._can_be_cut:
            with suppress(OSError):  # of a disk that is gone, nothing can be taken back
                self._file.truncate(self._size)
                self._file.seek(self._size)

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
