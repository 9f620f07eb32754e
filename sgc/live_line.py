"""A line that stays at the bottom of the terminal while rows run: a bar, counts and rates, as much
of them as its width holds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

BAR_WIDTHS = (24, 12)
REFRESH_PER_S = 10


class Figure(NamedTuple):
    """One item of the line, and a shorter form of it for narrow terminals."""

    text: str
    short: str


class LiveLine:
    """Draws itself anew several times a second, on a thread of its own.

    Args:
        total: number of rows, None where it is not known.
        transient: the line goes away when it is closed.
    """

    def __init__(self, console: Console, total: int | None, transient: bool) -> None:
        from rich.live import Live

        self._total = total
        self._done = 0
        self._figures: Sequence[Figure] = ()
        self._begin = time.monotonic()
        self._live = Live(
            self, console=console, transient=transient, refresh_per_second=REFRESH_PER_S
        )
        self._live.start()

    def show(self, done: int, figures: Sequence[Figure]) -> None:
        """So many rows have finished; the figures stand in the order of their importance."""
        self._done, self._figures = done, figures

    def close(self) -> None:
        """Draw it for the last time, or take it away."""
        self._live.stop()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        of = "" if self._total is None else f"/{self._total}"
        rows = f"{self._done}{of} rows"
        elapsed = str(timedelta(seconds=int(time.monotonic() - self._begin)))
        bar_width, text = fitted([Figure(rows, rows), *self._figures], elapsed, options.max_width)
        line = Table.grid(padding=(0, 1))
        cells: list[RenderableType] = [Text(text, no_wrap=True, overflow="crop")]
        if bar_width:
            cells.insert(0, ProgressBar(self._total, self._done, bar_width, self._total is None))
        line.add_row(*cells)
        yield line


def fitted(figures: Sequence[Figure], elapsed: str, width: int) -> tuple[int, str]:
    """Width of the bar (0: none) and the text beside it, the fullest that `width` columns hold.

    The bar goes first, then the time, then the long words, at last figures from the end on.
    """
    long = ", ".join(figure.text for figure in figures)
    short = ", ".join(figure.short for figure in figures)
    choices = [(bar, f"{long}  {elapsed}") for bar in (*BAR_WIDTHS, 0)]
    choices += [(0, long), (0, f"{short}  {elapsed}"), (0, short)]
    choices += [
        (0, ", ".join(figure.short for figure in figures[:count]))
        for count in range(len(figures) - 1, 0, -1)
    ]
    for bar, text in choices:
        if len(text) + (bar + 1 if bar else 0) <= width:
            return bar, text
    return choices[-1]
