"""Pictures of the page, as markup: bars that are as wide as there is room, and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sgc.eval.charts import Bars, Lines, Span
from sgc.page.document import markup_text

_WIDE = 1000  # units of a bar's track
_COLOURS = 6  # classes k0 to k5 of the style
_WIDTH, _HEIGHT = 400, 230  # of lines
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 22, 10, 34


def figure(chart: Bars | Lines) -> str:
    """The picture with its title and legend."""
    is_bars = isinstance(chart, Bars)
    axis = chart.axis if isinstance(chart, Bars) else chart.axes[1]
    names = list(chart.series if isinstance(chart, Bars) else chart.lines)
    inner = "\n".join(_bars(chart)) if isinstance(chart, Bars) else "\n".join(_lines(chart))
    caption = f"{markup_text(chart.title)}<small>{markup_text(axis)}</small>"
    legend = _legend(names) if len(names) > 1 or not is_bars else ""
    return (
        f'<figure id="{chart.name}"><figcaption>{caption}</figcaption>\n{inner}\n{legend}</figure>'
    )


def _legend(names: Sequence[str]) -> str:
    items = (
        f'<li class="k{at % _COLOURS}"><i></i>{markup_text(name)}</li>'
        for at, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _bars(chart: Bars) -> Iterator[str]:
    yield '<div class="bars">'
    for at, label in enumerate(chart.labels):
        span = chart.spans[at] if at < len(chart.spans) else None
        for number, (name, values) in enumerate(chart.series.items()):
            first = " first" if number == 0 else ""
            shown = _value(chart, values[at])
            if span is not None and number == 0:
                low, high = (_value(chart, end).removesuffix(" %") for end in span)
                shown += f" ({low}–{high})"
            says = markup_text(f"{label}, {name}: {shown}")
            yield f'<span class="label{first}">{markup_text(label) if first else ""}</span>'
            yield f'<svg class="bar{first}" viewBox="0 0 {_WIDE} 12" preserveAspectRatio="none" '
            yield f'role="img" aria-label="{says}">'
            yield f'<rect class="track" width="{_WIDE}" height="12"/>'
            yield from _bar(chart, values[at], number, span if number == 0 else None)
            yield f'</svg><span class="value{first}">{markup_text(shown)}</span>'
    yield "</div>"


def _bar(chart: Bars, value: float | None, number: int, span: Span | None) -> Iterator[str]:
    scale = _WIDE / chart.end
    if value is not None:
        yield f'<rect class="k{number % _COLOURS}" width="{value * scale:.1f}" height="12"/>'
    if span is not None:
        low, high = (end * scale for end in span)
        yield f'<rect class="span" x="{low:.1f}" y="5.2" width="{high - low:.1f}" height="1.6"/>'
        for end in (low, high):
            yield f'<rect class="span" x="{min(end, _WIDE - 4):.1f}" y="2" width="4" height="8"/>'


def _value(chart: Bars, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if chart.top == 1 else f"{value:,.3g}"


def _lines(chart: Lines) -> Iterator[str]:
    right, low = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    top = chart.ends[1]
    yield f'<svg class="lines" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
    yield f'aria-label="{markup_text(chart.title)}">'
    for share in (0.0, 0.5, 1.0):
        y, x = low - share * (low - _TOP), _LEFT + share * (right - _LEFT)
        yield f'<line class="axis" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share * top:.3g}</text>'
        yield f'<text x="{x:.1f}" y="{low + 15}" text-anchor="middle">{100 * share:.0f} %</text>'
    yield f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 4}" text-anchor="middle">'
    yield f"{markup_text(chart.axes[0])}</text>"
    for at, points in enumerate(chart.lines.values()):
        places = [(_LEFT + x * (right - _LEFT), low - y / top * (low - _TOP)) for x, y in points]
        yield f'<g class="k{at % _COLOURS}">'
        yield f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in places)
        yield "</g>"
    yield "</svg>"
