"""The pictures of a report as PNG files, by matplotlib (extra `eval`)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

from sgc.cli.output import writing
from sgc.eval.charts import Bars, Lines, charts
from sgc.files import write_atomically

COLOURS = ("#2f6fb3", "#c2843a", "#3d9160", "#8465a8", "#c0504d", "#59636e")
_MARGIN = 1.1  # of the axis behind the longest bar
_SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.parse_math": False,
}


def can_plot() -> bool:
    return find_spec("matplotlib") is not None


def write_plots(folder: Path, report: Mapping[str, Any]) -> list[Path]:
    """A PNG file for each picture of the report, in `folder`; pictures that were there and are no
    longer part of it are removed. Raises CommandError."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for chart in charts(report):
        path = folder / f"{chart.name}.png"
        with writing(path):
            write_atomically(path, png(chart))
        paths.append(path)
    for old in set(folder.glob("*.png")) - set(paths):
        with writing(old):
            old.unlink()
    return paths


def png(chart: Bars | Lines) -> bytes:
    """The picture as a PNG file; the same chart gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # has no window and no global state

    rows = len(chart.labels) * len(chart.series) if isinstance(chart, Bars) else 10
    file = BytesIO()
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(7, 1.3 + 0.3 * rows), dpi=144, layout="constrained")
        axes = figure.add_subplot()
        if isinstance(chart, Bars):
            _draw_bars(axes, chart)
        else:
            _draw_lines(axes, chart)
        axes.set_title(chart.title, loc="left", fontweight="bold")
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _draw_bars(axes: Any, chart: Bars) -> None:
    height = 0.8 / len(chart.series)
    middle = (len(chart.series) - 1) / 2
    for at, (name, values) in enumerate(chart.series.items()):
        places = [label + (at - middle) * height for label in range(len(chart.labels))]
        known = [(p, v) for p, v in zip(places, values, strict=True) if v is not None]
        colour = COLOURS[at % len(COLOURS)]
        axes.barh([p for p, _ in known], [v for _, v in known], height, color=colour, label=name)
        for label, (place, value) in enumerate(zip(places, values, strict=True)):
            if value is not None:
                behind = _end_of_span(chart, label) if at == 0 else 0.0
                x = max(value, behind) + 0.01 * chart.end
                axes.text(x, place, f"{value:.3g}", va="center", fontsize=8)
    for place, span in enumerate(chart.spans):
        if span:
            axes.hlines(place, *span, colors="black", linewidth=1)
            axes.vlines(span, place - height / 6, place + height / 6, colors="black", linewidth=1)
    axes.set_yticks(range(len(chart.labels)), chart.labels)
    axes.invert_yaxis()
    axes.set_xlim(0, chart.end * _MARGIN)
    axes.set_xlabel(chart.axis)
    axes.grid(axis="x", alpha=0.25)
    if len(chart.series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _end_of_span(chart: Bars, label: int) -> float:
    span = chart.spans[label] if label < len(chart.spans) else None
    return span[1] if span else 0.0


def _draw_lines(axes: Any, chart: Lines) -> None:
    for at, (name, points) in enumerate(chart.lines.items()):
        if points:
            axes.plot(
                *zip(*points, strict=True), marker="o", label=name, color=COLOURS[at % len(COLOURS)]
            )
    axes.set_xlim(0, 1)
    axes.set_ylim(0, chart.ends[1] * _MARGIN)
    axes.set_xlabel(chart.axes[0])
    axes.set_ylabel(chart.axes[1])
    axes.grid(alpha=0.25)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
