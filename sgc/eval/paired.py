"""How far two runs of the same rows differ, and whether chance alone would do that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sgc.eval.intervals import CONFIDENCE, Interval

RESAMPLES = 10_000
_CHUNK = 1 << 22  # drawn indexes at a time


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of the mean scores of B and A over rows that both have.

    Attributes:
        rows: pairs.
        first: mean of A over them.
        second: mean of B.
        difference: `second - first`.
        interval: of the difference.
        p_value: two-sided, of no difference.
        method: that gave the p-value.
        better: rows in which B scores more than A.
        worse: rows in which B scores less.
    """

    rows: int
    first: float
    second: float
    difference: float
    interval: Interval
    p_value: float
    method: str
    better: int
    worse: int


def paired(first: Sequence[float], second: Sequence[float], seed: int = 0) -> Paired:
    """Compare the scores of the same rows, in the same order.

    Where every score is 0 or 1 the p-value is McNemar's exact one and the interval that of
    Agresti and Min (2005), else both are of a paired bootstrap. Raises ValueError without rows.
    """
    if not first or len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} scores are no pairs")
    differences = [b - a for a, b in zip(first, second, strict=True)]
    better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    if all(value in (0, 1) for value in (*first, *second)):
        method = "McNemar exact"
        found = mcnemar(better, worse), binary_interval(len(first), better, worse)
    else:
        method = "paired bootstrap"
        found = paired_bootstrap(differences, seed)
    means = math.fsum(first) / len(first), math.fsum(second) / len(second)
    mean = math.fsum(differences) / len(differences)
    return Paired(len(first), *means, mean, found[1], found[0], method, better, worse)


def mcnemar(better: int, worse: int) -> float:
    """The exact p-value of McNemar's test (1947): a two-sided sign test of the pairs that
    differ."""
    total, least = better + worse, min(better, worse)
    tail = term = 1  # binomials, each from the one before it
    for k in range(least):
        term = term * (total - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / (1 << total))


def binary_interval(rows: int, better: int, worse: int, confidence: float = CONFIDENCE) -> Interval:
    """Of a difference of paired shares: Wald's with half a pair more in each cell (Agresti and
    Min, Statistics in Medicine 24, 2005)."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    count, apart, gain = rows + 2, better + worse + 1, better - worse
    centre = gain / count
    spread = z * math.sqrt(apart - gain * gain / count) / count
    return max(-1.0, centre - spread), min(1.0, centre + spread)


def paired_bootstrap(
    differences: Sequence[float],
    seed: int = 0,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> tuple[float, Interval]:
    """p-value and percentile interval of a mean difference (Efron and Tibshirani 1993).

    The p-value is the share of resamples, moved to a mean of zero, that lie as far from it as the
    mean does; never below 1 / (resamples + 1).
    """
    data = np.asarray(differences, dtype=np.float64)
    mean = data.mean()
    random = np.random.default_rng(seed)
    means, at_once = [], max(1, _CHUNK // len(data))
    for begin in range(0, resamples, at_once):
        count = min(at_once, resamples - begin)
        means.append(data[random.integers(len(data), size=(count, len(data)))].mean(axis=1))
    drawn = np.concatenate(means)
    far = int((np.abs(drawn - mean) >= abs(mean) - 1e-12).sum())
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return (far + 1) / (resamples + 1), (float(low), float(high))
