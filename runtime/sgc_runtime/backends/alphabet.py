"""A few characters that stand for all characters a pattern can tell apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

_PROBES = 512  # characters looked at in each interval for kinds that \d, \w and \s tell apart
_COMMON = "a0_ \n!A\u00e9\u0663\u2003\U0001f600"


@lru_cache(maxsize=256)
def representatives(pattern: str) -> tuple[str, ...]:
    """Characters such that any character behaves like one of them under `pattern`.

    Exact for literals, sets and ranges; within an interval, one character of each kind (digit,
    word character, blank, other) found among its first ones.
    """
    parsed: Any = re._parser.parse(pattern)  # type: ignore[attr-defined]
    borders = {0, 0x110000}
    for low, high in _intervals(parsed):
        borders |= {low, high + 1}
        for code in (low, high):
            for other in {chr(code).lower(), chr(code).upper(), chr(code).swapcase()}:
                if len(other) == 1:
                    borders |= {ord(other), ord(other) + 1}
    borders |= {b for c in _COMMON for b in (ord(c), ord(c) + 1)}
    points = sorted(borders)
    found: dict[str, None] = {}
    for low, high in pairwise(points):
        kinds: dict[tuple[bool, ...], str] = {}
        for code in range(low, min(high, low + _PROBES)):
            char = chr(code)
            kinds.setdefault(_kind(char), char)
        found.update(dict.fromkeys(kinds.values()))
    return tuple(c for c in found if not 0xD800 <= ord(c) < 0xE000)


def _kind(char: str) -> tuple[bool, ...]:
    return char.isdecimal(), char.isalnum() or char == "_", char.isspace()


def _intervals(node: Any) -> Iterator[tuple[int, int]]:
    """Ranges of character codes that a parsed pattern names."""
    if isinstance(node, tuple) and len(node) == 2 and str(node[0]) in ("LITERAL", "NOT_LITERAL"):
        yield node[1], node[1]
    elif isinstance(node, tuple) and len(node) == 2 and str(node[0]) == "RANGE":
        yield node[1]
    elif isinstance(node, tuple | list) or hasattr(node, "data"):
        for item in getattr(node, "data", node):
            yield from _intervals(item)
