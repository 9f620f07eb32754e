"""What the pictures of a report show, as plain data: for the PNG files and for the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars by label, one of each series.

    Attributes:
        name: of the file.
        axis: what the bars measure, with its unit.
        series: name -> a value for each label; None draws nothing.
        spans: of the first series, for each label: an interval, or None.
        top: the end of the axis where that is known (1 for shares).
    """

    name: str
    title: str
    axis: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    spans: Sequence[Span | None] = ()
    top: float | None = None

    @property
    def end(self) -> float:
        """The end of the axis: `top`, or the largest of what is drawn."""
        if self.top is not None:
            return self.top
        drawn = [v for values in self.series.values() for v in values if v is not None]
        return max([*drawn, *(span[1] for span in self.spans if span)], default=0.0) or 1.0


@dataclass(frozen=True, slots=True)
class Lines:
    """A line for each suite: points `(x, y)` in the order of x."""

    name: str
    title: str
    axes: tuple[str, str]
    lines: Mapping[str, Sequence[tuple[float, float]]]

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of both axes, which begin at 0."""
        points = [point for line in self.lines.values() for point in line]
        return max(x for x, _ in points) or 1.0, max(y for _, y in points) or 1.0


def charts(report: Mapping[str, Any]) -> list[Bars | Lines]:
    """The pictures of a report; one that would show nothing is left out."""
    found = [*_of_suites(report["suites"]), *_of_ablations(report.get("ablation") or {})]
    return [chart for chart in found if not _is_empty(chart)]


def _is_empty(chart: Bars | Lines) -> bool:
    if isinstance(chart, Lines):
        return not any(chart.lines.values())
    return all(value is None for values in chart.series.values() for value in values)


def _of_suites(suites: Mapping[str, Mapping[str, Any]]) -> Iterator[Bars | Lines]:
    def every(field: str) -> list[float | None]:
        return [figures.get(field) for figures in suites.values()]

    names = list(suites)
    scored = {n: f for n, f in suites.items() if f.get("accuracy") is not None}
    spans = [tuple(f["interval"]) if f.get("interval") else None for f in scored.values()]
    scores = {"score": [f["accuracy"] for f in scored.values()]}
    yield Bars("accuracy", "Scores", "score, 95 % interval", list(scored), scores, spans, 1.0)
    speed = {"programs/s": every("programs_per_s")}
    yield Bars("throughput", "Throughput", "programs a second", names, speed)
    rates = {"hit rate": every("hit_rate"), "optimum": every("optimal_hit_rate")}
    yield Bars("hit_rate", "Hit rate and the optimum", "of prompt tokens", names, rates, (), 1.0)
    times = {"p50": every("latency_p50_s"), "p99": every("latency_p99_s")}
    yield Bars("latency", "Latency of a program", "seconds", names, times)


def _of_ablations(found: Mapping[str, Any]) -> Iterator[Bars | Lines]:
    variants = list(found.get("variants", ()))
    if len(variants) > 1:
        means = {"geometric mean": [found["mean"][name] for name in variants]}
        axis = "programs a second, of the whole system's"
        yield Bars("ablations", "One part switched off", axis, variants, means)
    for field, (title, axis) in _AGAINST_HIT_RATE.items():
        lines = {
            suite: sorted(
                (point["hit_rate"], point[field])
                for point in points
                if point["hit_rate"] is not None and point[field] is not None
            )
            for suite, points in found.get("hit_rate", {}).items()
        }
        yield Lines(f"{field}_by_hit_rate", title, ("hit rate", axis), lines)


_AGAINST_HIT_RATE = {
    "programs_per_s": ("Throughput by hit rate", "programs a second"),
    "latency_mean_s": ("Latency by hit rate", "mean seconds of a program"),
    "mean_running": ("Batch by hit rate", "calls in a step"),
}
