"""Random numbers that are a function of (seed, step, place) and of nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seeds: Sequence[int], steps: Sequence[int], count: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1): `[rows, count]` float64 with 53 random bits.

    Counter-based (rounds of the splitmix64 finaliser over seed, step and place), so a row's
    numbers depend neither on the other rows nor on the order in which they are drawn.
    """
    seed = np.array([s & 0xFFFFFFFFFFFFFFFF for s in seeds], np.uint64)
    step = np.array(steps, np.uint64)
    row = _mix(_mix(seed + _GOLDEN) ^ ((step + np.uint64(1)) * _GOLDEN))
    places = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    mixed = _mix(row[:, None] + places)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
