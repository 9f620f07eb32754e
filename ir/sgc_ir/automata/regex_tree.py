"""What a regular expression is made of, flags resolved: the tree between parser and automaton."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgc_ir.automata.utf8 import Ranges


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a pattern.

    Attributes:
        asserts: whether an assertion is in it, so that what it matches depends on its neighbours.
        looks_left: whether one of them asks for what stands to its left.
        nullable: whether it can match the empty text (assertions taken as held).
    """

    asserts: bool = field(init=False, default=False)
    looks_left: bool = field(init=False, default=False)
    nullable: bool = field(init=False, default=False)

    def _set(self, asserts: bool, looks_left: bool, nullable: bool) -> None:
        object.__setattr__(self, "asserts", asserts)
        object.__setattr__(self, "looks_left", looks_left)
        object.__setattr__(self, "nullable", nullable)


@dataclass(frozen=True, slots=True)
class Text(Piece):
    """Characters one after the other; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars(Piece):
    """One character of `ranges`."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concat(Piece):
    """All `parts` in order."""

    parts: tuple[Piece, ...]

    def __post_init__(self) -> None:
        self._set(
            any(part.asserts for part in self.parts),
            any(part.looks_left for part in self.parts),
            all(part.nullable for part in self.parts),
        )


@dataclass(frozen=True, slots=True)
class Choice(Piece):
    """One of `parts`; none at all matches nothing."""

    parts: tuple[Piece, ...]

    def __post_init__(self) -> None:
        self._set(
            any(part.asserts for part in self.parts),
            any(part.looks_left for part in self.parts),
            any(part.nullable for part in self.parts),
        )


@dataclass(frozen=True, slots=True)
class Times(Piece):
    """`body` at least `low` and at most `high` times (None: without end); `lazy` where Python
    prefers few of them, which changes no language."""

    body: Piece
    low: int
    high: int | None
    lazy: bool = False

    def __post_init__(self) -> None:
        body = self.body
        self._set(body.asserts, body.looks_left, self.low == 0 or body.nullable)


@dataclass(frozen=True, slots=True)
class Ahead(Piece):
    """Lookahead; `negative` where the rest of the text may not begin with `body`."""

    body: Piece
    negative: bool

    def __post_init__(self) -> None:
        self._set(True, self.body.looks_left, True)


@dataclass(frozen=True, slots=True)
class Behind(Piece):
    """Lookbehind: the text so far ends (`negative`: does not end) with one of `choices`, each a
    sequence of character sets."""

    choices: tuple[tuple[Ranges, ...], ...]
    negative: bool

    def __post_init__(self) -> None:
        self._set(True, True, True)


@dataclass(frozen=True, slots=True)
class Begin(Piece):
    """`\\A`, and `^` without the flag m; with it (`lines`) also behind a newline."""

    lines: bool

    def __post_init__(self) -> None:
        self._set(True, True, True)


@dataclass(frozen=True, slots=True)
class End(Piece):
    """`\\Z` ("text"); `$` ("newline": also before a newline that ends the text); `$` with the
    flag m ("lines": also before any newline)."""

    kind: str

    def __post_init__(self) -> None:
        self._set(True, False, True)


@dataclass(frozen=True, slots=True)
class Border(Piece):
    """`\\b`; `negative` for `\\B`; `word` are the word characters."""

    word: Ranges
    negative: bool

    def __post_init__(self) -> None:
        self._set(True, True, True)
