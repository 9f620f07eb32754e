"""How much time and memory making one automaton may take."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sgc_ir.errors import ConstraintError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one automaton; beyond them it fails with a `ConstraintError`.

    Attributes:
        seconds: processor time of one compile, and of finding what leaves one state.
        nodes: interned expressions of one automaton.
        states: determinised states of one automaton (1 kB of transitions each).
        explored: expressions looked at by one emptiness question.
        depth: nesting of the source (groups, schemas, rules).
    """

    seconds: float = 0.8
    nodes: int = 1_000_000
    states: int = 200_000
    explored: int = 20_000
    depth: int = 200


DEFAULT_LIMITS = Limits()
_BETWEEN_LOOKS = 512


class Watch:
    """A deadline in processor time of the thread at work, looked at after some hundred pieces of
    it (asking for that time is a system call; most work is done before the first look)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart("making the constraint")

    def restart(self, what: str) -> None:
        """Begin anew; `what` names the work in the message."""
        self._what = what
        self._end: float | None = None  # set at the first look
        self._thread = 0
        self._due = _BETWEEN_LOOKS

    def tick(self, pieces: int = 1) -> None:
        """Count `pieces` of work; raise `ConstraintError` after the deadline."""
        self._due -= pieces
        if self._due < 0:
            self._due = _BETWEEN_LOOKS
            self._look()

    def _look(self) -> None:
        now, thread = time.thread_time(), threading.get_ident()
        if self._end is None or self._thread != thread:  # each thread has a clock of its own
            self._end, self._thread = now + self._seconds, thread
        elif now > self._end:
            raise ConstraintError(
                f"{self._what} took longer than {self._seconds:g} s; make it smaller"
            )
