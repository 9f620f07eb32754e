"""Which characters one item of a regular expression matches, asked of Python's `re` itself.

Plain sets are computed; the meaning of \\d, \\w, \\s and of ignored case is read off the engine, so
it is exactly that of the running Python, its Unicode version and its extra case pairs included.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import numpy as np

from sgc_ir.automata.utf8 import (
    ALL_CHARS,
    MAX_CHAR,
    Ranges,
    complement,
    intersect,
    normalize,
    union,
)

NEWLINE: Ranges = ((10, 10),)
NOT_NEWLINE: Ranges = complement(NEWLINE)

# An item of a set, as the parser gives it: ("LITERAL", code), ("RANGE", (first, last)),
# ("CATEGORY", name), ("NEGATE", None).
Item = tuple[str, Any]

_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_IGNORECASE, _ASCII = int(re.IGNORECASE), int(re.ASCII)
_MATTERING = _IGNORECASE | _ASCII  # flags that change what a set holds
_BLOCK = 256


@lru_cache(maxsize=4096)
def literal(code: int, flags: int) -> Ranges:
    """What the character `code` matches under `flags`."""
    if not flags & _IGNORECASE or chr(code) not in _cased()[0]:
        return ((code, code),)
    return _ignoring_case((("LITERAL", code),), flags & _MATTERING)


@lru_cache(maxsize=4096)
def one_of(items: tuple[Item, ...], flags: int) -> Ranges:
    """What a bracketed set matches under `flags`; surrogates may be in the result."""
    if flags & _IGNORECASE:
        return _ignoring_case(items, flags & _MATTERING)
    return _plain(items, flags & _ASCII)


def word(flags: int) -> Ranges:
    """The word characters, which `\\b` goes by, under `flags`."""
    return _category(r"\w", flags & _ASCII)


@cache
def _shorthands() -> dict[Ranges, str]:
    return {ALL_CHARS: "."} | {_category(name, 0): name for name in _CATEGORIES.values()}


@cache
def classes() -> tuple[tuple[str, Ranges], ...]:
    """\\S, \\D, \\W, \\w, \\d and \\s with their characters, large ones first."""
    return tuple((name, _category(name, 0)) for name in (r"\S", r"\D", r"\W", r"\w", r"\d", r"\s"))


def shorthand(ranges: Ranges) -> str | None:
    """How `ranges` are called in a pattern under the flag s, where they have a name."""
    return _shorthands().get(ranges)


def _plain(items: tuple[Item, ...], flags: int) -> Ranges:
    negated = bool(items) and items[0][0] == "NEGATE"
    parts: list[Ranges] = []
    for name, value in items[negated:]:
        if name == "LITERAL":
            parts.append(((value, value),))
        elif name == "RANGE":
            parts.append((tuple(value),))
        else:
            parts.append(_category(_CATEGORIES[value], flags))
    found = union(*parts)
    return complement(found) if negated else found


def _ignoring_case(items: tuple[Item, ...], flags: int) -> Ranges:
    """Uncased characters as without the flag, and each cased one that the engine says yes to."""
    text, uncased = _cased()
    engine = re.compile(_written(items), flags)
    cased = normalize((code, code) for code in map(ord, engine.findall(text)))
    return union(intersect(_plain(items, flags & _ASCII), uncased), cased)


def _written(items: tuple[Item, ...]) -> str:
    """The set as a pattern again."""
    out = []
    for name, value in items:
        if name == "NEGATE":
            out.append("^")
        elif name == "LITERAL":
            out.append(f"\\U{value:08x}")
        elif name == "RANGE":
            out.append(f"\\U{value[0]:08x}-\\U{value[1]:08x}")
        else:
            out.append(_CATEGORIES[value])
    return f"[{''.join(out)}]"


@cache
def _category(escape: str, flags: int) -> Ranges:
    if escape.isupper():
        return complement(_category(escape.lower(), flags))
    if flags & _ASCII:
        text = "".join(map(chr, range(128)))
    else:
        text = _every_code_point()
    runs = re.finditer(f"{escape}+", text, flags)
    return intersect(tuple((run.start(), run.end() - 1) for run in runs), ALL_CHARS)


def _every_code_point() -> str:
    codes = np.arange(MAX_CHAR + 1, dtype="<u4").tobytes()
    return codes.decode("utf-32-le", "surrogatepass")


@cache
def _cased() -> tuple[str, Ranges]:
    """Every character that has another case, and the ranges of all others."""
    text = _every_code_point()
    found = []
    for begin in range(0, len(text), _BLOCK):
        block = text[begin : begin + _BLOCK]
        if block.lower() != block or block.upper() != block:
            found += [c for c in block if c.lower() != c or c.upper() != c]
    return "".join(found), complement(normalize((ord(c), ord(c)) for c in found))
