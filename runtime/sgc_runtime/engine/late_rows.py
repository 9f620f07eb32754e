"""Rows that have stood aside, whose next ids are chosen by logits that were kept for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Flight, Runner


@dataclass(frozen=True, slots=True)
class LateFlight:
    """Their ids, being chosen.

    Attributes:
        marks: what the rows' `flight` was when it began.
    """

    flight: Flight
    rows: list[Request]
    marks: list[int]

    @property
    def places(self) -> list[int]:
        """Of the rows that have not left the flight since."""
        return [i for i, request in enumerate(self.rows) if request.flight == self.marks[i]]


class LateRows:
    """Collects them; choosing begins before the next forward is launched, so that nobody waits for
    that one to get the ids.

    Args:
        fail: called with a request and what is wrong with it.
    """

    def __init__(self, runner: Runner, fail: Callable[[Request, Exception], None]) -> None:
        self._runner, self._fail = runner, fail
        self._kept: list[tuple[Request, torch.Tensor]] = []
        self._begun: LateFlight | None = None

    def add(self, request: Request, logits: torch.Tensor) -> None:
        """One whose next id may be chosen now, by `logits` (`[1, vocab]` float32)."""
        self._kept.append((request, logits))

    def begin(self) -> None:
        """Begin to choose the ids of all that were added; those that run no more are left out."""
        kept = [entry for entry in self._kept if entry[0].state is State.RUNNING]
        self._kept = []
        if not kept:
            return
        rows = [request for request, _ in kept]
        try:
            flight = self._runner.sample_kept(rows, [logits for _, logits in kept])
        except Exception as exc:
            for request in rows:
                self._fail(request, exc)
            return
        self._begun = LateFlight(flight, rows, [request.flight for request in rows])

    def take(self) -> LateFlight | None:
        """What has begun, once."""
        begun, self._begun = self._begun, None
        return begun
