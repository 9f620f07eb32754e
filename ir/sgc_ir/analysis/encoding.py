"""How an analysis turns text into tokens; without a tokenizer, words stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Scored(NamedTuple):
    """Choices behind a text.

    Attributes:
        ids: those of the text behind which all of them are scored.
        low, high: ids of the shortest and the longest from there on.
    """

    ids: Sequence[int]
    low: int
    high: int


class Encoding(Protocol):
    """Turns known text into ids."""

    def encode(self, text: str, start: bool) -> Sequence[int]:
        """Ids of a text; `start`: a prompt begins with it."""
        ...

    def scored(self, text: str, choices: tuple[str, ...], start: bool) -> Scored | None:
        """How a select encodes its choices behind a text; None: each by itself."""
        ...


class Words:
    """One token a word; `start` makes no difference."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def encode(self, text: str, start: bool) -> list[int]:
        return [self._ids.setdefault(word, len(self._ids)) for word in text.split()]

    def scored(self, text: str, choices: tuple[str, ...], start: bool) -> None:
        return None


class Remembered:
    """Remembers the ids of texts: many prompts are made of the same ones."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._known: dict[tuple[str, bool], Sequence[int]] = {}
        self._scored: dict[tuple[str, tuple[str, ...], bool], Scored | None] = {}

    def encode(self, text: str, start: bool) -> Sequence[int]:
        found = self._known.get((text, start))
        if found is None:
            found = self._known[text, start] = self._encoding.encode(text, start)
        return found

    def scored(self, text: str, choices: tuple[str, ...], start: bool) -> Scored | None:
        key = (text, choices, start)
        if key not in self._scored:
            self._scored[key] = self._encoding.scored(*key)
        return self._scored[key]

    def count(self, text: str) -> int:
        """Tokens of a text inside of a prompt."""
        return len(self.encode(text, False))
