"""How much an instance of a program will generate and say at most, as far as a row tells.

A `Need` is made once for each graph (`needs_graph`) and evaluated for each row: texts and lengths
of lists that the row gives are left open in it. Loops count with the shortest bound of their
passes that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class Size:
    """A value of a row: number of items (of a text: characters), characters in sum, and the value
    itself where it is a whole number."""

    count: int | None = None
    chars: int = 0
    number: int | None = None

    @property
    def item(self) -> Size:
        """One of its items, in the mean."""
        return Size(None, self.chars // self.count if self.count else 0)


UNKNOWN = Size()


def size_of(value: Any) -> Size:
    """The size of plain data."""
    if isinstance(value, str):
        return Size(len(value), len(value))
    if isinstance(value, Mapping):
        return Size(len(value), sum(size_of(v).chars for v in value.values()))
    if isinstance(value, list | tuple):
        return Size(len(value), sum(size_of(v).chars for v in value))
    if isinstance(value, int) and not isinstance(value, bool):
        return Size(None, len(str(value)) if abs(value) < 10**18 else 18, value)
    return UNKNOWN


class Amount(NamedTuple):
    """Tokens and characters, and how many things are open that may add to them."""

    tokens: int = 0
    chars: int = 0
    open: int = 0

    def times(self, number: int) -> Amount:
        return Amount(number * self.tokens, number * self.chars, number * self.open)


class Given(NamedTuple):
    """Where a value comes from: a parameter of the graph (or an item of it), or a constant."""

    name: str = ""
    item: bool = False
    size: Size = UNKNOWN

    def of(self, sizes: Mapping[str, Size]) -> Size:
        """Its size in a row."""
        found = sizes.get(self.name, UNKNOWN) if self.name else self.size
        return found.item if self.item else found


class Passes(NamedTuple):
    """A bound of passes: a number, or the length or value of something that the row gives."""

    number: int | None = None
    length: Given | None = None
    value: Given | None = None

    def most(self, sizes: Mapping[str, Size]) -> int | None:
        if self.length is not None:
            return self.length.of(sizes).count
        return self.number if self.value is None else self.value.of(sizes).number


@dataclass(slots=True)
class Need:
    """Tokens to generate and characters to say, at most.

    Attributes:
        open: how much of it the run decides, and cannot be told before: numbers of such things.
        texts: what the row gives -> how often it is said.
        parts: bounds of passes (None: once), what each pass needs, and where the parameters of
            its graph come from.
    """

    tokens: int = 0
    chars: int = 0
    open: int = 0
    texts: dict[Given, int] = field(default_factory=dict)
    parts: list[tuple[tuple[Passes, ...] | None, Need, Mapping[str, Given]]] = field(
        default_factory=list
    )

    def add(self, other: Need) -> None:
        self.tokens += other.tokens
        self.chars += other.chars
        self.open += other.open
        for given, times in other.texts.items():
            self.texts[given] = self.texts.get(given, 0) + times
        self.parts += other.parts

    def amount(self, sizes: Mapping[str, Size]) -> Amount:
        """Of a row with such arguments; loops whose passes it does not tell count as open, with
        nothing of what is in them."""
        tokens, opened = self.tokens, self.open
        chars = self.chars + sum(g.of(sizes).chars * n for g, n in self.texts.items())
        for passes, inner, given in self.parts:
            times = 1 if passes is None else most_passes(passes, sizes)
            if times is None:
                opened += 1
            elif times:
                each = inner.amount(inner_sizes(given, sizes))
                tokens, chars = tokens + times * each.tokens, chars + times * each.chars
                opened += times * each.open
        return Amount(tokens, chars, opened)


def inner_sizes(given: Mapping[str, Given], sizes: Mapping[str, Size]) -> dict[str, Size]:
    """Sizes of the parameters of a loop's body or a called graph."""
    return {name: g.of(sizes) for name, g in given.items()}


def most_passes(passes: tuple[Passes, ...], sizes: Mapping[str, Size]) -> int | None:
    """The least of the bounds that are known; None: there is none."""
    known = [most for bound in passes if (most := bound.most(sizes)) is not None]
    return max(0, min(known)) if known else None
