"""One stop regex over growing text: where it matches, and where it still may begin to match."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import regex

from sgc_ir.errors import InputError
from sgc_runtime.tokenizer.regex_begins import NoAutomaton, RegexBegins, states_of

_SEARCH_LIMIT_S = 0.1  # a search takes microseconds, but for patterns that backtrack for ever


class Mark(NamedTuple):
    """See `RegexStop.mark`."""

    first: int
    begins: tuple[int, dict[int, int]] | None


class RegexStop:
    """A stop pattern, in the syntax of Python's `re`, that is searched again after each token.

    An automaton tells where a match begins, and from where on one is still possible, which narrows
    what is held back of streamed text; each character is looked at once. Patterns that have none
    (back-references, assertions about what stands before, hundreds of states) are searched by the
    `regex` package: unlike `re` it can be told to give up, and it knows partial matches, too. What
    it cannot read is left to `re`.

    Raises (`find` and `first_possible`):
        InputError: without an automaton, the search in one text takes longer than 0.1 seconds.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._compiled = _compile(pattern)
        self._partial = _compile_partial(pattern)
        self._first = 0  # no match begins in front of it, whatever follows
        self._begins: RegexBegins | None = None
        self._has_automaton = states_of(pattern) is not None

    def mark(self) -> Mark:
        """What it has seen, for `return_to`."""
        return Mark(self._first, None if self._begins is None else self._begins.mark())

    def return_to(self, mark: Mark) -> None:
        """Have seen no more than then: text that came since is taken back."""
        self._first = mark.first
        if mark.begins is None:
            self._begins = None
        elif self._begins is not None:
            self._begins.return_to(mark.begins)

    def find(self, text: str, first: int) -> tuple[int, int] | None:
        """Begin and end of the leftmost match in `text` that begins at `first` or later.

        From call to call `text` grows, and `first` is the same.
        """
        if self._has_automaton:
            try:
                return self._find_by_automaton(text, first)
            except NoAutomaton:
                self._has_automaton, self._begins = False, None
        first = max(first, self._first)
        if self._partial is None:
            found = self._compiled.search(text, first)
        else:
            found = self._within_limit(self._partial.search, text, first)
        return None if found is None else found.span()

    def _find_by_automaton(self, text: str, first: int) -> tuple[int, int] | None:
        if self._begins is None:
            self._begins = RegexBegins(self.pattern, first)
        self._begins.take(text)
        begin = self._begins.matched()
        if begin is None or begin > len(text):
            return None
        found = None
        if self._partial is not None:
            found = self._within_limit(self._partial.match, text, begin)
        if found is None:
            found = self._compiled.match(text, begin)
        assert found is not None, "the automaton is that of the pattern"
        return found.span()

    def first_possible(self, text: str, first: int) -> int:
        """The earliest position from `first` on at which more text may give a match.

        Call it only after `find` found nothing in the same text.
        """
        if self._begins is not None:
            return min(self._begins.earliest(), len(text))
        first = max(first, self._first)
        if self._partial is None:
            return min(first, len(text))
        found = self._within_limit(self._partial.search, text, first, partial=True)
        self._first = len(text) if found is None else found.start()
        return min(self._first, len(text))

    def _within_limit(self, look: Any, text: str, first: int, **options: Any) -> Any:
        try:
            return look(text, first, timeout=_SEARCH_LIMIT_S, **options)
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
