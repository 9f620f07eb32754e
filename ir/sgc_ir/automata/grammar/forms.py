"""What a grammar is made of, whatever notation it was written in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sgc_ir.automata.utf8 import Ranges


@dataclass(frozen=True, slots=True)
class Form:
    """One part of a rule's right side."""


@dataclass(frozen=True, slots=True)
class Word(Form):
    """A terminal, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Name(Form):
    """A rule, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Series(Form):
    """All `parts` in order; none is the empty text."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Options(Form):
    """One of `parts`; none at all is no text."""

    parts: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Times(Form):
    """`body` at least `low` and at most `high` times (None: without end)."""

    body: Form
    low: int
    high: int | None


NOTHING = Series(())
NEVER = Options(())


@dataclass(frozen=True, slots=True)
class Pattern:
    """A terminal that is a regular expression in Python's dialect."""

    regex: str


@dataclass(frozen=True, slots=True)
class Letters:
    """A terminal that is a string; not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class Chars:
    """A terminal that is one character of `ranges`."""

    ranges: Ranges


Terminal = Pattern | Letters | Chars


@dataclass(slots=True)
class Grammar:
    """Rules over terminals, none of which holds the empty text.

    Attributes:
        rules: the right side of each rule.
        terminals: what each terminal is.
        ignored: terminals that may stand before every other one and at the end.
        start: the first rule.
    """

    rules: dict[str, Form]
    terminals: dict[str, Terminal]
    ignored: tuple[str, ...] = ()
    start: str = "start"


def series(parts: Iterable[Form]) -> Form:
    """`parts` in order, flat."""
    flat: list[Form] = []
    for part in parts:
        if part == NEVER:
            return NEVER
        flat += part.parts if isinstance(part, Series) else (part,)
    return flat[0] if len(flat) == 1 else Series(tuple(flat))


def options(parts: Iterable[Form]) -> Form:
    """One of `parts`, flat, each once."""
    flat: dict[Form, None] = {}
    for part in parts:
        flat.update(dict.fromkeys(part.parts if isinstance(part, Options) else (part,)))
    return next(iter(flat)) if len(flat) == 1 else Options(tuple(flat))


def times(body: Form, low: int, high: int | None) -> Form:
    """`body` repeated."""
    if high == 0 or body == NOTHING:
        return NOTHING
    if body == NEVER:
        return NOTHING if low == 0 else NEVER
    return body if (low, high) == (1, 1) else Times(body, low, high)


def names(form: Form) -> Iterator[str]:
    """The rules that `form` mentions."""
    return _mentioned(form, Name)


def words(form: Form) -> Iterator[str]:
    """The terminals that `form` mentions."""
    return _mentioned(form, Word)


def _mentioned(form: Form, kind: type[Name] | type[Word]) -> Iterator[str]:
    stack = [form]
    while stack:
        top = stack.pop()
        if isinstance(top, kind):
            yield top.name
        elif isinstance(top, Series | Options):
            stack += top.parts
        elif isinstance(top, Times):
            stack.append(top.body)
