"""What the GPU did in a window of time, kernel by kernel, by torch's profiler."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

GAP_US = 10.0  # kernels of one graph begin 1 to 3 us apart; where nothing was launched it is more
_TRIM = 0.1  # of a window at either end, in which the profiler begins and ends

Interval = tuple[float, float]  # us


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One kernel or copy; microseconds of one clock."""

    name: str
    begin: float
    end: float


def record(seconds: float, wait: Callable[[float], None] = time.sleep) -> list[KernelRun]:
    """What all streams did meanwhile, without both ends of the window, in order of time."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        wait(seconds)
    runs = sorted(_runs(found), key=lambda run: run.begin)
    if not runs:
        return []
    begin, end = runs[0].begin, max(run.end for run in runs)
    low, high = begin + _TRIM * (end - begin), end - _TRIM * (end - begin)
    return [run for run in runs if run.begin >= low and run.end <= high]


def _runs(found: Any) -> Iterable[KernelRun]:
    for event in found.profiler.kineto_results.events():
        if event.device_type().name != "CPU":
            begin = 1e-3 * event.start_ns()
            yield KernelRun(event.name(), begin, begin + 1e-3 * event.duration_ns())


def union(intervals: Iterable[Interval], gap: float = 0.0) -> list[Interval]:
    """Intervals in order, joined where less than `gap` lies between them."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1] + gap:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((begin, end))
    return joined


def length(intervals: Iterable[Interval]) -> float:
    return sum(end - begin for begin, end in intervals)


def idle_shares(runs: Sequence[KernelRun]) -> dict[str, float]:
    """Shares of the window in which nothing ran: `waiting` in gaps above `GAP_US`, and `all`."""
    spans = [(run.begin, run.end) for run in runs]
    window = max(end for _, end in spans) - min(begin for begin, _ in spans)
    return {
        "waiting": 1.0 - length(union(spans, GAP_US)) / window,
        "all": 1.0 - length(union(spans)) / window,
    }


def time_of(runs: Sequence[KernelRun], names: Sequence[str], counted: str) -> float | None:
    """Microseconds in which any kernel with one of `names` ran, over the number of kernels named
    `counted`; None when there are none."""
    mine = [run for run in runs if any(name in run.name for name in names)]
    count = sum(counted in run.name for run in mine)
    return length(union((run.begin, run.end) for run in mine)) / count if count else None


def heaviest(runs: Sequence[KernelRun], number: int = 12) -> dict[str, dict[str, float]]:
    """Kernels that took most time: calls, and microseconds of all of them together."""
    sums: dict[str, list[float]] = {}
    for run in runs:
        sums.setdefault(run.name[:60], []).append(run.end - run.begin)
    first = sorted(sums.items(), key=lambda item: -sum(item[1]))[:number]
    return {name: {"calls": len(us), "us": round(sum(us), 1)} for name, us in first}
