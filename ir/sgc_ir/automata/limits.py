"""How much time and memory making one automaton may take."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sgc_ir.errors import ConstraintError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one automaton; beyond them it fails with a `ConstraintError`.

    Attributes:
        seconds: wall time of one compile, or of one emptiness or finiteness question.
        nodes: interned expressions of one automaton.
        states: determinised states of one automaton (1 kB of transitions each).
        explored: expressions looked at by one emptiness question.
        depth: nesting of the source (groups, schemas, rules).
    """

    seconds: float = 5.0
    nodes: int = 1_000_000
    states: int = 200_000
    explored: int = 20_000
    depth: int = 200


DEFAULT_LIMITS = Limits()


class Watch:
    """A deadline that is looked at every few hundred calls."""

    def __init__(self, seconds: float, what: str) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._what = what
        self._calls = 0

    def tick(self) -> None:
        """Count one piece of work; raise `ConstraintError` after the deadline."""
        self._calls += 1
        if self._calls & 0xFF == 0 and time.monotonic() > self._end:
            raise ConstraintError(
                f"{self._what} took longer than {self._seconds:g} s; make the constraint smaller"
            )
