"""The first stop in a text that grows token by token; one rule for all backends.

The stop that is complete with the earliest token ends the text; of those that one token completes
the one that begins first, then the one named first, strings before regexes. A stop that begins
within the first `min_tokens` tokens is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from sgc_runtime.tokenizer import stop_regex
from sgc_runtime.tokenizer.stop_regex import RegexStop


class Stop(NamedTuple):
    """`text[begin:end]` is the stop; `matched` is the stop string or the pattern."""

    begin: int
    end: int
    matched: str


class Mark(NamedTuple):
    """See `StopFinder.mark`."""

    text: str
    num_safe_chars: int
    num_tokens: int
    first_char: int
    regexes: tuple[stop_regex.Mark, ...]


class StopFinder:
    """Takes the text of one token after the other.

    Args:
        stop: stop strings.
        stop_regex: stop patterns in Python's syntax.
        min_tokens: number of tokens in which no stop may begin.

    Attributes:
        text: all text so far.
        num_safe_chars: text in front of it cannot become a stop any more.
        has_stops: there is something to find.
    """

    def __init__(
        self, stop: Sequence[str] = (), stop_regex: Sequence[str] = (), min_tokens: int = 0
    ) -> None:
        self.text = ""
        self.num_safe_chars = 0
        self._strings = tuple(stop)
        self._beginnings = tuple(s[:-1] for s in self._strings)  # the last text may be one
        self._regexes = tuple(RegexStop(pattern) for pattern in stop_regex)
        self.has_stops = bool(self._strings or self._regexes)
        self._min_tokens = min_tokens
        self._num_tokens = 0
        self._first_char = 0  # no stop begins in front of it

    def mark(self) -> Mark:
        """Where it is, for `return_to`."""
        regexes = tuple(regex.mark() for regex in self._regexes) if self._regexes else ()
        return Mark(self.text, self.num_safe_chars, self._num_tokens, self._first_char, regexes)

    def return_to(self, mark: Mark) -> None:
        """Be where it was: what came since is taken back."""
        self.text, self.num_safe_chars = mark.text, mark.num_safe_chars
        self._num_tokens, self._first_char = mark.num_tokens, mark.first_char
        for regex, seen in zip(self._regexes, mark.regexes, strict=True):
            regex.return_to(seen)

    def cut(self, count: int) -> None:
        """Take the last characters back, where there are no stops."""
        self.text = self.text[: len(self.text) - count]
        self.num_safe_chars = len(self.text)

    def push(self, piece: str, cut: bool = False) -> Stop | None:
        """Take the next token's text; the stop that it completes. Push nothing after a stop.

        Args:
            cut: the token ends inside a character, which is not in `piece`.
        """
        num_old_chars = len(self.text)
        self.text += piece
        self._num_tokens += 1
        if not self.has_stops:
            self.num_safe_chars = len(self.text)
            return None
        if self._num_tokens <= self._min_tokens:
            self._first_char = len(self.text) + cut  # that character begins within them, too
            self.num_safe_chars = len(self.text)
            return None
        found = self._find(num_old_chars)
        self.num_safe_chars = self._safe_until() if found is None else found.begin
        return found

    def _find(self, num_old_chars: int) -> Stop | None:
        best: Stop | None = None
        for stop in self._strings:
            first = max(self._first_char, num_old_chars - len(stop) + 1)
            begin = self.text.find(stop, first)
            if begin >= 0 and (best is None or begin < best.begin):
                best = Stop(begin, begin + len(stop), stop)
        for regex in self._regexes:
            span = regex.find(self.text, self._first_char)
            if span is not None and (best is None or span[0] < best.begin):
                best = Stop(*span, regex.pattern)
        return best

    def _safe_until(self) -> int:
        safe = len(self.text)
        last = self.text[-1:]
        for beginning in self._beginnings:
            if last not in beginning:
                continue
            longest = min(len(beginning), len(self.text) - self._first_char)
            for length in range(longest, 0, -1):
                if self.text.endswith(beginning[:length]):
                    safe = min(safe, len(self.text) - length)
                    break
        for regex in self._regexes:
            safe = min(safe, regex.first_possible(self.text, self._first_char))
        # What was safe stays safe: it may have been given away.
        return max(safe, self.num_safe_chars)


def find_stop(
    text: str,
    token_ends: Iterable[int],
    stop: Sequence[str],
    stop_regex: Sequence[str] = (),
    min_tokens: int = 0,
) -> Stop | None:
    """The stop that ends `text`, whose tokens end at the character offsets `token_ends`."""
    finder = StopFinder(stop, stop_regex, min_tokens)
    for begin, end in pairwise((0, *token_ends)):
        found = finder.push(text[begin:end])
        if found is not None:
            return found
    return None
