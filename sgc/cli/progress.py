"""What `sgc run` shows while rows run: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from typing import Any, Protocol

from sgc.cli.failure import say
from sgc.cli.tally import Tally
from sgc.live_line import LiveLine

FIRST_LINE_S = 5.0  # the lines become rarer: each time has to grow by a fifth
MAX_FAILURES_SHOWN = 10


class Display(Protocol):
    """Shows a run. All methods are called on the main thread."""

    def note(self, text: str) -> None:
        """Say one line."""
        ...

    def update(self, tally: Tally) -> None:
        """A row has finished, or some time has passed."""
        ...

    def close(self, tally: Tally, table: bool) -> None:
        """End the display; with `table` the closing table follows."""
        ...


def make_display(total: int | None, quiet: bool, rows_to_stdout: bool) -> Display:
    """The display for standard error; `total` is the number of rows where it is known.

    Rows that go to the same terminal would break the line of a bar: then there is none.
    """
    if quiet or sys.stderr is None:
        return _Silent()
    shared = rows_to_stdout and sys.stdout is not None and sys.stdout.isatty()
    return _Bar(total) if sys.stderr.isatty() and not shared else _Lines(total)


class FailureNotes:
    """Says which rows failed, the first ones in full and the rest as a number."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._count = 0

    def add(self, place: str, message: str) -> None:
        self._count += 1
        if self._count <= MAX_FAILURES_SHOWN:
            where = "" if message.startswith(place) else f"{place}: "
            self._display.note(f"sgc: row failed: {where}{message}")
        elif self._count == MAX_FAILURES_SHOWN + 1:
            self._display.note("sgc: more rows failed; their errors are in the output")


class _Silent:
    def note(self, text: str) -> None:
        pass

    def update(self, tally: Tally) -> None:
        pass

    def close(self, tally: Tally, table: bool) -> None:
        pass


class _Lines:
    """A line now and then."""

    def __init__(self, total: int | None) -> None:
        self._of = f"/{total}" if total is not None else ""
        self._next_s = FIRST_LINE_S

    def note(self, text: str) -> None:
        say(text)

    def update(self, tally: Tally) -> None:
        if tally.seconds >= self._next_s:
            self._next_s = max(tally.seconds * 1.2, tally.seconds + FIRST_LINE_S)
            rates = ", ".join(figure.text for figure in tally.figures())
            say(f"sgc: {tally.rows}{self._of} rows, {rates}")

    def close(self, tally: Tally, table: bool) -> None:
        if table:
            width = max(len(label) for label, _ in tally.table())
            for label, value in tally.table():
                say(f"{label:<{width}}  {value}")


class _Bar:
    """A line of `rich` that stays the last one of the terminal."""

    def __init__(self, total: int | None) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._line = LiveLine(self._console, total, transient=True)

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)

    def update(self, tally: Tally) -> None:
        self._line.show(tally.rows, tally.figures())

    def close(self, tally: Tally, table: bool) -> None:
        self._line.close()
        if table:
            self._console.print(_rich_table(tally))


def _rich_table(tally: Tally) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, value in tally.table():
        table.add_row(label, value)
    return table
