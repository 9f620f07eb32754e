"""Interleaved repetitions, their median and spread, and intervals for differences."""

from __future__ import annotations

import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Samples:
    """Wall times of one engine's repetitions, in seconds, with the load average before each."""

    seconds: list[float] = field(default_factory=list)
    load: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def add(self, work: Callable[[], float]) -> None:
        """Time another repetition."""
        load = os.getloadavg()[0]
        self.seconds.append(work())
        self.load.append(load)

    def has_time(self, budget_s: float) -> bool:
        """Whether another repetition would stay within `budget_s`, or is the first."""
        return not self.seconds or sum(self.seconds) + self.median <= budget_s

    def to_dict(self) -> dict[str, Any]:
        return {
            "median_s": round(self.median, 5),
            "min_s": round(min(self.seconds), 5),
            "max_s": round(max(self.seconds), 5),
            "spread": round((max(self.seconds) - min(self.seconds)) / self.median, 4),
            "repetitions": len(self.seconds),
            "load_average": [round(x, 2) for x in self.load],
        }


ENGINE_S = 120.0  # for the repetitions of one engine, unless the user says otherwise

Timed = Callable[[], float]  # does the work once and gives the seconds that count


def interleave(
    works: Mapping[str, Timed],
    repetitions: int,
    budget_s: float = math.inf,
    drop: tuple[type[Exception], ...] = (),
) -> dict[str, Samples]:
    """Run each work once a round, the order turned from round to round, so that a slow minute of
    the machine or a warm cache of the processor favours none.

    Args:
        repetitions: rounds.
        budget_s: a work sits out the rounds that would bring its own seconds above this; the
            first it always does. Each keeps its own number of repetitions.
        drop: what a work raises when it cannot; it is then left out of the result.
    """
    samples = {name: Samples() for name in works}
    names = list(works)
    for i in range(repetitions):
        for name in names[i % len(names) :] + names[: i % len(names)]:
            if name not in samples or not samples[name].has_time(budget_s):
                continue
            try:
                samples[name].add(works[name])
            except drop:
                del samples[name]
    return samples


def timed(work: Callable[[], Any]) -> float:
    """Wall time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def mean_interval(values: Sequence[float]) -> dict[str, float]:
    """Mean and its 95 % interval (normal approximation; Student's factor for few values)."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return {"mean": mean, "low": -math.inf, "high": math.inf, "n": len(values)}
    half = _student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": len(values)}


def _student(degrees: int) -> float:
    """The 97.5 % point of Student's distribution; for more than 10 degrees Fisher's expansion,
    within 0.2 %."""
    small = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
    if degrees <= len(small):
        return small[degrees - 1]
    z = 1.959964
    return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
