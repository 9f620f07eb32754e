"""When the stages of a request began, for the timing of its call."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from sgc_ir.params import Timing


@dataclass(slots=True)
class Times:
    """Seconds of one monotonic clock; 0.0 for what has not happened yet.

    Attributes:
        asked: the request was made.
        admitted: it got memory for the first time.
        prefilled: its prompt was computed for the first time.
        done: its last token was there.
        forced: begin, end and number of ids of each run that a constraint forced; None: none.
        forcing: begin and number of ids of the one that is being computed, or None.
    """

    asked: float = field(default_factory=perf_counter)
    admitted: float = 0.0
    prefilled: float = 0.0
    done: float = 0.0
    forced: list[tuple[float, float, int]] | None = None
    forcing: tuple[float, int] | None = None

    def admit(self) -> None:
        """Begin the prefill, the first time."""
        self.admitted = self.admitted or perf_counter()

    def prefill(self) -> None:
        """End the prefill, the first time; whatever a retraction costs later is decode. After
        that, what was forced is computed."""
        if not self.prefilled:
            self.prefilled = perf_counter()
        elif self.forcing is not None:
            self._end_forcing(perf_counter())

    def force(self, count: int) -> None:
        """So many ids are forced, and computed together until the next id is sampled."""
        if self.forcing is None:
            self.forcing = perf_counter(), count
        else:
            self.forcing = self.forcing[0], self.forcing[1] + count

    def _end_forcing(self, now: float) -> None:
        assert self.forcing is not None
        self.forced = self.forced or []
        self.forced.append((self.forcing[0], now, self.forcing[1]))
        self.forcing = None

    def end(self) -> None:
        """All is computed; what needed no computation was done when it began."""
        self.done = perf_counter()
        if self.forcing is not None:
            self._end_forcing(self.done)
        self.admitted = self.admitted or self.done
        self.prefilled = self.prefilled or self.done

    def timing(self) -> Timing:
        """Of a request that is done."""
        return Timing(
            waiting=self.admitted - self.asked,
            prefill=self.prefilled - self.admitted,
            decode=self.done - self.prefilled,
            asked=self.asked,
            forced=self.forced or (),
        )
