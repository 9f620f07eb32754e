"""Bounds on a grammar's text before lark's loader, which cannot be interrupted, reads it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from sgc_ir.errors import ConstraintError

_MAX_CHARS = 100_000
_MAX_TERMINAL = 20_000  # terminals in one terminal, those they mention written out
_TOKEN = re.compile(
    r'"(?:\\.|[^"\\\n])*"'  # strings, comments and patterns hold no names
    r"|//[^\n]*|\#[^\n]*"
    r"|/(?:\\.|[^/\\])*/"
    r"|(?P<head>_?[A-Z][_A-Z0-9]*)(?:\.-?\d+)?[ \t]*:"
    r"|(?P<rule>[a-z_][_a-zA-Z0-9]*)(?:\{[^}]*\})?(?:\.-?\d+)?[ \t]*:"
    r"|(?P<name>_?[A-Z][_A-Z0-9]*)"
)


def check_size(text: str) -> None:
    """Refuse a grammar that takes lark's loader too long.

    Terminals are written into one another there, so that a short grammar can hold one that
    is exponentially large.
    """
    if len(text) > _MAX_CHARS:
        raise ConstraintError(
            f"the grammar has {len(text)} characters and at most {_MAX_CHARS} are read; split it"
        )
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
        if found["head"]:
            head = found["head"]
        elif found["rule"]:
            head = ""
        elif found["name"] and head:
            yield head, found["name"]


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
