"""What of a grammar takes lark's loader, which cannot be interrupted, too long: refused before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from sgc_ir.errors import ConstraintError

_MAX_TERMINAL = 20_000  # terminals in one terminal, those they mention written out
_MAX_SPACE = 2000  # lark looks at each character of a run of line ends from each before it
# Nothing in it looks at a character again and again: the text may be hostile.
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*+(?:"|(?P<string>))'  # strings, comments and patterns hold no names
    r"|//[^\n]*|\#[^\n]*"
    r"|/(?:\\[\s\S]|[^/\\])*+(?:/|(?P<pattern>))"
    rf"|(?P<space>\s{{{_MAX_SPACE}}})"
    r"|(?P<head>_?[A-Z][_A-Z0-9]*+)(?:\.-?\d++)?[ \t]*+:"
    r"|(?P<rule>[a-z_][_a-zA-Z0-9]*+)(?:\{[^{}]*+\})?(?:\.-?\d++)?[ \t]*+:"
    r"|(?P<name>_?[A-Z][_A-Z0-9]*+)"
    r"|[a-z_][_a-zA-Z0-9]*+"
)


def check_size(text: str) -> None:
    """Refuse a grammar that takes lark's loader too long.

    Terminals are written into one another there, so that a short grammar can hold one that
    is exponentially large; and a string or pattern without an end takes its lexer exponentially
    long in the backslashes it holds.
    """
    uses: dict[str, Counter[str]] = {}
    for head, name in _uses(text):
        uses.setdefault(head, Counter())[name] += 1
    sizes: dict[str, int] = {}
    for start in uses:
        _measure(start, uses, sizes)


def _uses(text: str) -> Iterator[tuple[str, str]]:
    """Each mention of a terminal in the definition of one."""
    head = ""
    for found in _TOKEN.finditer(text):
        _refuse_slow(found)
        if found["head"]:
            head = found["head"]
        elif found["rule"]:
            head = ""
        elif found["name"] and head:
            yield head, found["name"]


def _refuse_slow(found: re.Match[str]) -> None:
    what = found.lastgroup
    if what not in ("string", "pattern", "space"):
        return
    before = found.string[: found.start()]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
    if what == "space":
        raise ConstraintError(
            f"the grammar has {_MAX_SPACE} characters of white space in a row; drop them",
            where=place,
        )
    raise ConstraintError(f"a {what} has no end; mend the grammar", kind="malformed", where=place)


def _measure(start: str, uses: dict[str, Counter[str]], sizes: dict[str, int]) -> None:
    stack = [start]
    opened: set[str] = set()
    while stack:
        name = stack[-1]
        used = uses.get(name, Counter())
        missing = [one for one in used if one not in sizes and one not in opened]
        if missing and name not in sizes:
            opened.add(name)  # one that holds itself is an error that lark names
            stack += missing
            continue
        stack.pop()
        sizes[name] = 1 + sum(count * sizes.get(one, 0) for one, count in used.items())
        if sizes[name] > _MAX_TERMINAL:
            raise ConstraintError(
                f"terminal {name} has more than {_MAX_TERMINAL} parts with those it mentions; "
                "make it smaller"
            )
