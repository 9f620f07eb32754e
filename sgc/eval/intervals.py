"""Confidence intervals of a mean score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 2000
_CHUNK = 1 << 22  # drawn indexes at a time

Interval = tuple[float, float]


def wilson(successes: float, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """The Wilson score interval of a share (Wilson 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def bootstrap(
    values: Sequence[float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Interval:
    """The percentile bootstrap interval of the mean (Efron 1979); (0, 1) without values."""
    if not values:
        return 0.0, 1.0
    data = np.asarray(values, dtype=np.float64)
    random = np.random.default_rng(seed)
    means = []
    at_once = max(1, _CHUNK // len(data))
    for begin in range(0, resamples, at_once):
        count = min(at_once, resamples - begin)
        means.append(data[random.integers(len(data), size=(count, len(data)))].mean(axis=1))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return float(low), float(high)


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The interval of the mean of scores: Wilson's where all are 0 or 1, else the bootstrap's."""
    if all(value in (0, 1) for value in values):
        return wilson(sum(values), len(values))
    return bootstrap(values, seed)
