"""Whether a step is to begin before the ids of the one before it are known."""

from __future__ import annotations

_WEIGHT = 1 / 8  # of the newest number in an average


class Lookahead:
    """Weighs what it saves against what it loses.

    A step that begins early saves the time in which the device would wait for the host: from the
    results to the next launch. A row that turns out otherwise (forced ids follow the sampled one,
    which could have been computed with it, or it is refused) loses a step. So with many such rows
    and little to do on the host it is better to wait for the results.
    """

    def __init__(self) -> None:
        self._turned = 0.0  # share of the rows
        self._gap_s = self._step_s = 0.0

    @property
    def pays(self) -> bool:
        return self._turned * self._step_s <= self._gap_s

    def see_rows(self, num_turned: int, num_rows: int) -> None:
        """Of the rows of a step, how many turned out otherwise."""
        if num_rows:
            self._turned += _WEIGHT * (min(1.0, num_turned / num_rows) - self._turned)

    def see_times(self, gap_s: float, step_s: float) -> None:
        """Of a step.

        Args:
            gap_s: host time for results, plan and launch.
            step_s: the time that the device takes, as far as it shows.
        """
        self._gap_s += _WEIGHT * (gap_s - self._gap_s)
        self._step_s += _WEIGHT * (step_s - self._step_s)
