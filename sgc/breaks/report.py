"""What was not compiled in a run: where, why, how often, and how much of it all that was."""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Break:
    """A place at which Python runs a statement. `count` is how often, 0 where nothing has run."""

    file: str
    line: int
    reason: str
    count: int = 0

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.file}:{self.line}: {self.reason}{times}"


class BreakLog:
    """The breaks of one run; any thread.

    Attributes:
        compiled: nodes of regions that have run. interpreted: statements that Python has run, and
            what they asked of streams.
    """

    def __init__(self) -> None:
        self.compiled = 0
        self.interpreted = 0
        self._counts: dict[tuple[str, int, str], int] = {}
        self._lock = threading.Lock()

    def note(self, file: str, line: int, reason: str) -> None:
        """A statement was run by Python."""
        with self._lock:
            key = (file, line, reason)
            self._counts[key] = self._counts.get(key, 0) + 1

    def count(self, compiled: int = 0, interpreted: int = 0) -> None:
        """Nodes and statements that have run."""
        with self._lock:
            self.compiled += compiled
            self.interpreted += interpreted

    @property
    def share(self) -> float:
        """Compiled nodes among all; 1.0 where nothing has run."""
        nodes = self.compiled + self.interpreted
        return self.compiled / nodes if nodes else 1.0

    def breaks(self) -> list[Break]:
        """By file and line."""
        with self._lock:
            found = [Break(*key, count) for key, count in self._counts.items()]
        return sorted(found, key=lambda b: (b.file, b.line, b.reason))
