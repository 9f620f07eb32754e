"""Times of work on a device: between events, and inside a CUDA graph."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

Work = Callable[[], Any]


def median_us(work: Work, device: torch.device, tries: int = 20) -> float:
    """Microseconds of one call, its launches included: the median of `tries`."""
    for _ in range(3):
        work()
    return statistics.median(_once_us(work, device) for _ in range(tries))


def graph_us(works: Sequence[Work], device: torch.device, rounds: int = 4, tries: int = 7) -> float:
    """Microseconds of one of `works`, which are called in turn within a CUDA graph.

    Give as many as are needed to bring other memory each time than the caches hold. Median of
    `tries` replays of `rounds` rounds each. On a CPU the first of them, once.
    """
    if device.type == "cpu":
        return _once_us(works[0], device)
    side = _stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for work in works:
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(rounds):
            for work in works:
                work()
    graph.replay()
    return median_us(graph.replay, device, tries) / (rounds * len(works))


def host_us(work: Work, device: torch.device, tries: int = 20) -> float:
    """Microseconds that the host is busy with one call: the median."""
    work()
    times = []
    for _ in range(tries):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def _once_us(work: Work, device: torch.device) -> float:
    if device.type == "cpu":
        started = time.perf_counter()
        work()
        return 1e6 * (time.perf_counter() - started)
    begin, end = _event(), _event()
    begin.record()
    work()
    end.record()
    end.synchronize()
    return 1e3 * float(begin.elapsed_time(end))


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
