"""How much time and memory making one automaton may take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from sgc_ir.automata.work_time import work_time
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
_BETWEEN_LOOKS = 128


class OutOfTime(ConstraintError):
    """The time limit is passed, which another try may not do."""


class SliceEnded(Exception):
    """The time that a thread has given itself (`time_slice`) is over before its work was done.

    Nothing is lost or half done: whoever asked asks again, and what was found so far is known
    then. For those who work in slices; nobody else sees it.
    """


class _OwnTime(threading.local):
    """What the thread at work has set itself."""

    slice_end: float = inf
    at_look: Callable[[], None] | None = None


_own = _OwnTime()


class TimeSlice:
    """Inside, this thread's work on automata ends with `SliceEnded` when its processor time is
    `end`; looked at after some hundred pieces of work, so that little work is done in any case."""

    __slots__ = ("_before", "_end")

    def __init__(self, end: float) -> None:
        self._end = end

    def __enter__(self) -> None:
        self._before = _own.slice_end
        _own.slice_end = self._end

    def __exit__(self, *_: object) -> None:
        _own.slice_end = self._before


def time_slice(seconds: float) -> TimeSlice:
    """See `TimeSlice`; it ends so much processor time from now on."""
    return TimeSlice(work_time() + seconds)


@contextmanager
def at_each_look(call: Callable[[], None] | None) -> Iterator[None]:
    """Inside, `call` is called again and again in this thread while it works on automata; it may
    sleep, or raise. None: nothing is called, as outside."""
    before, _own.at_look = _own.at_look, call
    try:
        yield
    finally:
        _own.at_look = before


Tick = Callable[[int], None]  # is told how many pieces of work were done; may raise


def unwatched(pieces: int) -> None:
    """Count nothing."""


class Watch:
    """A deadline in processor time of the thread at work, looked at after some hundred pieces of
    it (asking for that time is a system call; most work is done before the first look)."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = _BETWEEN_LOOKS
        self.restart("making the constraint")

    def restart(self, what: str) -> None:
        """Begin anew; `what` names the work in the message."""
        self._what = what
        self._end: float | None = None  # set at the first look
        self._thread = 0
        if _own.at_look is None:  # else many short steps count as one long one
            self._due = _BETWEEN_LOOKS

    def tick(self, pieces: int = 1) -> None:
        """Count `pieces` of work.

        Raises:
            OutOfTime: the deadline is past.
            SliceEnded: the thread's own one is.
        """
        self._due -= pieces
        if self._due < 0:
            self._due = _BETWEEN_LOOKS
            self._look()

    def _look(self) -> None:
        if _own.at_look is not None:
            _own.at_look()
        now, thread = work_time(), threading.get_ident()
        if self._end is None or self._thread != thread:  # each thread has a clock of its own
            self._end, self._thread = now + self._seconds, thread
        elif now > self._end:
            raise OutOfTime(f"{self._what} took longer than {self._seconds:g} s; make it smaller")
        if now > _own.slice_end:
            raise SliceEnded
