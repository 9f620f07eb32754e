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
    """

    asked: float = field(default_factory=perf_counter)
    admitted: float = 0.0
    prefilled: float = 0.0
    done: float = 0.0

    def admit(self) -> None:
        """Begin the prefill, the first time."""
        self.admitted = self.admitted or perf_counter()

    def prefill(self) -> None:
        """End the prefill, the first time; whatever a retraction costs later is decode."""
        self.prefilled = self.prefilled or perf_counter()

    def end(self) -> None:
        """All is computed; what needed no computation was done when it began."""
        self.done = perf_counter()
        self.admitted = self.admitted or self.done
        self.prefilled = self.prefilled or self.done

    def timing(self) -> Timing:
        """Of a request that is done."""
        return Timing(
            waiting=self.admitted - self.asked,
            prefill=self.prefilled - self.admitted,
            decode=self.done - self.prefilled,
            asked=self.asked,
        )
