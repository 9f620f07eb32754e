"""Durations in little memory: number, sum, largest, and quantiles within 5 %."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import ceil, exp, log
from typing import Any

_WIDTH = log(1.1)  # of a class: its middle is at most 5 % off
_SHORTEST = 1e-9  # seconds; what is shorter counts as that in quantiles


@dataclass(slots=True)
class Durations:
    """Durations in seconds, in classes that are each a tenth longer than the one before."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    _classes: Counter[int] = field(default_factory=Counter)

    def add(self, seconds: float) -> None:
        """Count one more."""
        self.count += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)
        self._classes[int(log(max(seconds, _SHORTEST) / _SHORTEST) / _WIDTH)] += 1

    def quantile(self, share: float) -> float:
        """The duration that `share` of all do not exceed, in seconds; 0.0 of none."""
        left = ceil(share * self.count)
        for number, count in sorted(dict(self._classes).items()):  # others may be adding
            left -= count
            if left <= 0:
                return min(self.longest, _SHORTEST * exp((number + 0.5) * _WIDTH))
        return self.longest

    def to_dict(self, whole: float) -> dict[str, Any]:
        """Plain data; `share` is the part of `whole` seconds."""
        return {
            "count": self.count,
            "seconds": self.seconds,
            "share": self.seconds / whole if whole else 0.0,
            "mean_ms": 1e3 * self.seconds / self.count if self.count else 0.0,
            "p50_ms": 1e3 * self.quantile(0.5),
            "p99_ms": 1e3 * self.quantile(0.99),
            "longest_ms": 1e3 * self.longest,
        }
