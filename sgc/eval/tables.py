"""Tables and numbers of reports, as text: for Markdown and for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]  # the head first


def piped(rows: Rows) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def aligned(rows: Rows) -> list[str]:
    """The lines of a table in columns of equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def number(value: float | None, digits: int = 0) -> str:
    """A number with separators; a dash for None."""
    return "-" if value is None else f"{value:,.{digits}f}"


def percent(value: float | None) -> str:
    """A share as percent; a dash for None."""
    return "-" if value is None else f"{100 * value:.1f} %"
