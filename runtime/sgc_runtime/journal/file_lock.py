"""A lock on a file, held by one process at a time and given back when it ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class FileLock:
    """Holds `path` locked from `take` until `release`.

    The file is opened once and kept open: closing another handle of a file on which sqlite holds
    locks would take those away.
    """

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, path: Path, create: bool) -> FileLock:
        """Lock the file, which is made when `create` and it is not there.

        Raises BlockingIOError when another process holds it, FileNotFoundError, OSError.
        """
        while True:
            handle = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(handle, path):
                    return cls(handle)
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # whoever held it has deleted it meanwhile

    def begin(self, num_bytes: int) -> bytes:
        """The first bytes of the file."""
        return os.pread(self._handle, num_bytes, 0)

    def release(self) -> None:
        """Let others have it."""
        os.close(self._handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False
