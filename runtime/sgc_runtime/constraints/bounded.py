"""Bounds the time of what is done about one token of a sample."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from sgc_ir.automata.limits import SliceEnded, TimeSlice
from sgc_ir.automata.one_step import OneStep
from sgc_ir.automata.work_time import work_time
from sgc_ir.errors import ConstraintError

USUAL_S, _MOST_OVERDUE_S = 0.002, 3.0


class Worker(Protocol):
    """Whose time it is; see `Matcher`."""

    is_held_up: bool
    overdue: float


class Bounded:
    """What `Matcher.bounded` gives. A class, since there are several for each token.

    The processor's time is asked for as seldom as can be: that is a system call.
    """

    __slots__ = ("_began", "_begun_at", "_seconds", "_slice", "_step", "_worker")

    def __init__(self, worker: Worker, step: OneStep, seconds: float) -> None:
        self._worker, self._step, self._seconds = worker, step, seconds

    def __enter__(self) -> None:
        self._begun_at = perf_counter()
        self._began = work_time()
        self._slice = TimeSlice(self._began + self._seconds)
        self._step.__enter__()
        self._slice.__enter__()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._slice.__exit__()
        self._step.__exit__()
        worker = self._worker
        if kind is None:
            worker.is_held_up = False
            # No thread works longer than it takes.
            if worker.overdue > 0.0 or perf_counter() - self._begun_at > USUAL_S:
                self._count_time(USUAL_S)
        elif issubclass(kind, SliceEnded):
            worker.is_held_up = True
            self._count_time(0.0)
        elif issubclass(kind, Exception):
            worker.is_held_up = False

    def _count_time(self, usual: float) -> None:
        worker = self._worker
        worker.overdue = max(0.0, worker.overdue + work_time() - self._began - usual)
        if worker.overdue > _MOST_OVERDUE_S:
            worker.is_held_up = False
            raise ConstraintError(
                f"following the constraint takes more than {_MOST_OVERDUE_S:g} s beyond "
                f"{1000 * USUAL_S:g} ms a token; make it smaller"
            ) from None
