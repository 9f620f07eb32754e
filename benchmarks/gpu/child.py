"""The other end of a worker: starts it, asks it, and ends it with all its processes."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
_GRACE_S = 10.0


class EngineFailed(Exception):
    """The engine died, took too long, or refused; the message says so in one line."""


class Child:
    """A worker in a process group of its own.

    Args:
        python_path: folders where it finds its packages, besides the benchmarks'.
        log: file for what it prints.
        folder: an empty folder, its working directory: the folders of this repository would hide
            packages of the same names from other engines.
        variables: of its environment, besides those of this process.
    """

    def __init__(
        self,
        python_path: Sequence[Path],
        log: Path,
        folder: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        (folder / _PACKAGE.name).symlink_to(_PACKAGE)
        paths = [str(path) for path in (*python_path, folder)]
        ours, theirs = socket.socketpair()
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.gpu.worker", str(theirs.fileno())],
                cwd=folder,
                env={**os.environ, **(variables or {}), "PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        theirs.close()
        self._socket, self._log, self._read = ours, log, b""

    def send(self, do: str, **facts: Any) -> None:
        """Begin a request; `receive` waits for its answer."""
        line = json.dumps({"do": do, **facts}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except OSError as error:
            raise EngineFailed(self._last_words("cannot be reached")) from error

    def receive(self, seconds: float) -> dict[str, Any]:
        """The answer. Raises EngineFailed; one that takes too long is ended."""
        end = time.monotonic() + seconds
        while b"\n" not in self._read:
            if time.monotonic() > end:
                self.end()
                raise EngineFailed(self._last_words(f"no answer in {seconds:.0f} s"))
            ready, _, _ = select.select([self._socket], [], [], 0.5)
            piece = self._socket.recv(1 << 20) if ready else None
            if piece == b"" or (piece is None and self._process.poll() is not None):
                self.end()
                raise EngineFailed(self._last_words("died"))
            self._read += piece or b""
        line, self._read = self._read.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineFailed(answer["error"])
        return answer

    def ask(self, do: str, seconds: float, **facts: Any) -> dict[str, Any]:
        """Both."""
        self.send(do, **facts)
        return self.receive(seconds)

    def close(self) -> None:
        """Let it end by itself, then make sure that nothing is left of it."""
        try:
            self.ask("close", _GRACE_S)
            self._process.wait(_GRACE_S)
        except (EngineFailed, subprocess.TimeoutExpired):
            pass
        self.end()

    def end(self) -> None:
        """End all processes of its group."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def printed(self) -> str:
        """What it has printed so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _last_words(self, what: str) -> str:
        lines = self.printed().splitlines()
        words = [line.strip() for line in lines if line.strip()][-3:]
        return f"{what}; its last lines: {' | '.join(words)[-500:]}"
