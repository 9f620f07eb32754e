"""One stop regex over growing text: where it matches, and where it still may begin to match."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import regex

from sgc_ir.errors import InputError

_SEARCH_LIMIT_S = 1.0  # a search takes microseconds, but for patterns that backtrack for ever


class RegexStop:
    """A stop pattern, in the syntax of Python's `re`, that is searched again after each token.

    The `regex` package searches: unlike `re` it can be told to give up, and it knows partial
    matches, that is from where on a match is still possible; this narrows the next search and
    holds back streamed text. What it cannot read is left to `re`.

    Raises (`find` and `first_possible`):
        InputError: the search in one text takes longer than a second.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._compiled = _compile(pattern)
        self._partial = _compile_partial(pattern)
        self._first = 0  # no match begins in front of it, whatever follows

    def find(self, text: str, first: int) -> tuple[int, int] | None:
        """Begin and end of the leftmost match in `text` that begins at `first` or later."""
        first = max(first, self._first)
        if self._partial is None:
            found = self._compiled.search(text, first)
        else:
            found = self._search(text, first, partial=False)
        return None if found is None else found.span()

    def first_possible(self, text: str, first: int) -> int:
        """The earliest position from `first` on at which more text may give a match.

        Call it only after `find` found nothing in the same text.
        """
        first = max(first, self._first)
        if self._partial is None:
            return min(first, len(text))
        found = self._search(text, first, partial=True)
        self._first = len(text) if found is None else found.start()
        return min(self._first, len(text))

    def _search(self, text: str, first: int, partial: bool) -> Any:
        try:
            return self._partial.search(text, first, partial=partial, timeout=_SEARCH_LIMIT_S)
        except TimeoutError as error:
            raise InputError(
                f"stop_regex={self.pattern[:60]!r} takes longer than {_SEARCH_LIMIT_S:g} s on "
                f"{len(text)} characters: write it without repeats inside repeats"
            ) from error


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@lru_cache(maxsize=256)
def _compile_partial(pattern: str) -> Any:
    """The pattern as `regex` reads it, or None where it cannot."""
    try:
        return regex.compile(_plain_syntax(pattern), regex.VERSION0)
    except regex.error:
        return None


def _plain_syntax(pattern: str) -> str:
    """`pattern` with the characters escaped that are literal in `re` and special in `regex`.

    These are braces that are no repeat count (fuzzy matching) and brackets inside a set.
    """
    out = []
    i = 0
    in_set = False
    while i < len(pattern):
        char = pattern[i]
        step = 1
        if char == "\\":
            step = 2
        elif in_set:
            if char == "]":
                in_set = False
            elif char == "[":
                out.append("\\")
        elif char == "[":
            in_set = True
            step = _set_head(pattern, i)
        elif char == "{" and not _COUNT.match(pattern, i):
            out.append("\\")
        out.append(pattern[i : i + step])
        i += step
    return "".join(out)


_COUNT = re.compile(r"\{(?:\d+(?:,\d*)?|,\d*)\}")


def _set_head(pattern: str, i: int) -> int:
    """Length of `[`, `[^`, `[]` or `[^]`: a bracket directly behind the head is literal."""
    head = 2 if pattern.startswith("[^", i) else 1
    return head + 1 if pattern.startswith("]", i + head) else head
