"""How much time and memory making one automaton may take."""

from __future__ import annotations

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

    seconds: float = 1.0
    nodes: int = 1_000_000
    states: int = 200_000
    explored: int = 20_000
    depth: int = 200


DEFAULT_LIMITS = Limits()
_BETWEEN_LOOKS = 512


class Watch:
    """A deadline in processor time of this thread, looked at after some hundred pieces of work."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.restart("making the constraint")

    def restart(self, what: str) -> None:
        """Begin anew; `what` names the work in the message."""
        self._what = what
        self._end = time.thread_time() + self._seconds
        self._due = _BETWEEN_LOOKS

    def tick(self, pieces: int = 1) -> None:
        """Count `pieces` of work; raise `ConstraintError` after the deadline."""
        self._due -= pieces
        if self._due < 0:
            self._due = _BETWEEN_LOOKS
            if time.thread_time() > self._end:
                raise ConstraintError(
                    f"{self._what} took longer than {self._seconds:g} s; make it smaller"
                )
