"""Text in cells of a monospaced font: measuring, shortening, wrapping."""

from __future__ import annotations

import unicodedata

MAX_CELLS = 40  # of a line
MAX_LINES = 3


def cells(text: str) -> int:
    """Width of `text` in cells of a monospaced font; wide characters take two."""
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def visible(text: str) -> str:
    """`text` on one line: line ends as `⏎`, other unprintable characters as `·`."""
    text = text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", "→")
    return "".join(c if c.isprintable() else "·" for c in text)


def shorten(text: str, limit: int) -> str:
    """The beginning of `text`, at most `limit` cells, ending in `…` where something is cut."""
    if cells(text) <= limit:
        return text
    kept, width = [], 1
    for char in text:
        width += _cell(char)
        if width > limit:
            break
        kept.append(char)
    return "".join(kept) + "…"


def wrap(text: str, limit: int = MAX_CELLS, lines: int = MAX_LINES) -> list[str]:
    """`text` in at most `lines` lines of `limit` cells, broken at blanks where there are some."""
    wrapped: list[str] = []
    rest = text
    while cells(rest) > limit and len(wrapped) < lines - 1:
        head = shorten(rest, limit + 1)[:-1] or rest[:1]
        blank = head.rfind(" ") if rest[len(head)] != " " else len(head)
        cut = blank + 1 if blank > len(head) // 2 else len(head)
        wrapped.append(rest[:cut].rstrip(" "))
        rest = rest[cut:]
    return [*wrapped, shorten(rest, limit)]
