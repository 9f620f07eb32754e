"""Text that only a run knows, as a value of its own and as a mark inside known text.

A mark is a number between two Unicode noncharacters, which no interchanged text holds, so that
joining, formatting and rendering of texts carry it along.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


@dataclass(frozen=True, slots=True)
class Span:
    """A text that only the run knows.

    Attributes:
        row, number: name it; equal ones are the same text.
        low, high: bounds of its length in tokens, as the model made them; None: no bound is known.
        calls: numbers of the calls of the instance that it depends on.
    """

    row: int
    number: int
    low: int
    high: int | None
    calls: frozenset[int] = frozenset()

    @property
    def mark(self) -> str:
        return f"{_OPEN}{self.number}{_CLOSE}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only the run knows; its text is `span`.

    Attributes:
        is_text: it is a text for certain.
        may_be_unset: it may turn out to be UNSET.
    """

    span: Span
    is_text: bool = False
    may_be_unset: bool = False

    def __str__(self) -> str:
        return self.span.mark


class Spans:
    """The spans of one instance."""

    def __init__(self, row: int) -> None:
        self._row = row
        self._spans: list[Span] = []
        self._groups: dict[Hashable, Span] = {}

    def new(self, low: int, high: int | None, calls: frozenset[int] = frozenset()) -> Span:
        span = Span(self._row, len(self._spans), low, high, calls)
        self._spans.append(span)
        return span

    def for_pieces(self, key: Hashable, high: int | None, calls: frozenset[int]) -> Span:
        """The span that stands for `key`: equal ones get one span, of at most `high` tokens."""
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self.new(0, high, calls)
        return found

    def parts(self, text: str) -> list[str | Span]:
        """A text with marks as its known pieces and the spans between them."""
        found: list[str | Span] = []
        for i, piece in enumerate(_MARK.split(text)):
            if i % 2:
                found.append(self._spans[int(piece)])
            elif piece:
                found.append(piece)
        return found

    def inside(self, value: Any) -> list[Span]:
        """The spans that a value holds, at any depth."""
        return list(dict.fromkeys(self._inside(value)))

    def _inside(self, value: Any) -> Iterator[Span]:
        if isinstance(value, Unknown):
            yield value.span
        elif isinstance(value, str):
            if _OPEN in value:
                yield from (s for s in self.parts(value) if isinstance(s, Span))
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from self._inside(key)
                yield from self._inside(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._inside(item)


def holds_mark(text: str) -> bool:
    """Whether a text of the user's has characters that stand for marks."""
    return _OPEN in text or _CLOSE in text


def calls_of(spans: Iterable[Span]) -> frozenset[int]:
    """The calls that any of the spans depends on."""
    found: frozenset[int] = frozenset()
    return found.union(*(span.calls for span in spans))


def largest(spans: Iterable[Span]) -> int | None:
    """The largest upper bound, None where one has none."""
    highs = [span.high for span in spans]
    known = [high for high in highs if high is not None]
    return max(known, default=0) if len(known) == len(highs) else None


def is_open(value: Any) -> bool:
    """Whether a value holds something unknown, at any depth."""
    if isinstance(value, str):
        return _OPEN in value
    if isinstance(value, Mapping):
        return any(is_open(k) or is_open(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return any(map(is_open, value))
    return isinstance(value, Unknown)
