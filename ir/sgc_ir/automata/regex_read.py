"""From the parser's tree to ours: flags resolved, character sets computed, constructs refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sgc_ir.automata import regex_chars
from sgc_ir.automata.limits import Tick, unwatched
from sgc_ir.automata.regex_tree import (
    Ahead,
    Begin,
    Behind,
    Border,
    Chars,
    Choice,
    Concat,
    End,
    Piece,
    Text,
    Times,
)
from sgc_ir.automata.utf8 import ALL_CHARS, Ranges
from sgc_ir.errors import ConstraintError

# Plain numbers: operations on the members of `re.RegexFlag` are slow.
_IGNORECASE, _DOTALL, _MULTILINE = int(re.IGNORECASE), int(re.DOTALL), int(re.MULTILINE)
_TYPE_FLAGS = int(re.ASCII | re.LOCALE | re.UNICODE)
BEHIND = "look-behind requires fixed-width pattern"  # Python's words
_MAX_BEHIND = 256  # character sets of one lookbehind; each is a bit of the left context
_REFUSED = {
    "GROUPREF": "a back-reference",
    "GROUPREF_IGNORE": "a back-reference",
    "GROUPREF_EXISTS": "a conditional pattern (?(group)...)",
    "ATOMIC_GROUP": "an atomic group (?>...)",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}


_SET_WORK = 64  # pieces of work that a set of characters is


def read(tree: Any, flags: int, tick: Tick = unwatched) -> Piece:
    """Our tree of the parser's `tree` under `flags`.

    Args:
        tick: is told how many pieces of work were done; may raise, as `Pool.tick` does.

    Raises:
        ConstraintError: a construct that no finite automaton holds, or that is not supported.
    """
    parts: list[Piece] = []
    letters: list[str] = []
    cased = not flags & _IGNORECASE
    for op, value in tree:
        name = op.name
        if cased and name == "LITERAL":
            letters.append(chr(value))
            continue
        if letters:
            parts.append(Text("".join(letters)))
            letters = []
        tick(1)
        part = _read_item(name, value, flags, tick)
        parts += part.parts if isinstance(part, Concat) else (part,)
    if letters:
        parts.append(Text("".join(letters)))
    return parts[0] if len(parts) == 1 else Concat(tuple(parts))


def _read_item(name: str, value: Any, flags: int, tick: Tick) -> Piece:
    if name == "LITERAL":
        return Chars(regex_chars.literal(value, flags))
    if name in ("NOT_LITERAL", "IN"):
        tick(_SET_WORK)
    if name == "NOT_LITERAL":
        return Chars(regex_chars.one_of((("NEGATE", None), ("LITERAL", value)), flags))
    if name == "IN":
        return Chars(regex_chars.one_of(tuple([(op.name, _plain(av)) for op, av in value]), flags))
    if name == "ANY":
        return Chars(ALL_CHARS if flags & _DOTALL else regex_chars.NOT_NEWLINE)
    if name == "SUBPATTERN":
        _, added, removed, body = value
        return read(body, _combined(flags, added, removed), tick)
    if name == "BRANCH":
        return Choice(tuple([read(item, flags, tick) for item in value[1]]))
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        return _read_repeat(value, name == "MIN_REPEAT", flags, tick)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _read_look(value, name == "ASSERT_NOT", flags, tick)
    if name == "AT":
        return _read_position(str(value), flags)
    if name == "FAILURE":
        return Choice(())
    what = _REFUSED.get(name, f"the construct {name}")
    raise ConstraintError(
        f"{what} is not supported; write the regex without it", kind="unsupported"
    )


def _plain(value: Any) -> Any:
    """Named constants of the parser as strings; numbers, pairs and None as they are."""
    return value if value is None or type(value) in (int, tuple) else str(value)


def _combined(flags: int, added: int, removed: int) -> int:
    if added & _TYPE_FLAGS:
        flags &= ~_TYPE_FLAGS
    return (flags | added) & ~removed


def _read_repeat(value: Any, lazy: bool, flags: int, tick: Tick) -> Piece:
    low, high, body = value
    piece = read(body, flags, tick)
    endless = str(high) == "MAXREPEAT"
    if (low, high) == (1, 1):
        return piece
    return Times(piece, int(low), None if endless else int(high), lazy)


def _read_position(name: str, flags: int) -> Piece:
    lines = bool(flags & _MULTILINE)
    if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return Begin(lines and name == "AT_BEGINNING")
    if name == "AT_END":
        return End("lines" if lines else "newline")
    if name == "AT_END_STRING":
        return End("text")
    if name in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
        return Border(regex_chars.word(flags), name == "AT_NON_BOUNDARY")
    raise ConstraintError(
        f"the anchor {name} is not supported; write the regex without it", kind="unsupported"
    )


def _read_look(value: Any, negative: bool, flags: int, tick: Tick) -> Piece:
    direction, body = value
    piece = read(body, flags, tick)
    if direction > 0:
        return Ahead(piece, negative)
    least, most = body.getwidth()
    if least != most:  # Python finds this when it makes code of the tree
        raise ConstraintError(f"{BEHIND}; mend the regex", kind="malformed")
    choices = tuple(_sequences(piece))
    if sum(map(len, choices)) > _MAX_BEHIND:
        raise _behind(f"of more than {_MAX_BEHIND} characters in all")
    return Behind(choices, negative)


def _behind(what: str) -> ConstraintError:
    return ConstraintError(
        f"a lookbehind {what} is not supported; write the regex without it", kind="unsupported"
    )


def _sequences(piece: Piece) -> Iterator[tuple[Ranges, ...]]:
    """The sequences of character sets that a lookbehind's body (of fixed width) consists of."""
    if isinstance(piece, Text):
        yield tuple(((ord(c), ord(c)),) for c in piece.text)
    elif isinstance(piece, Chars):
        yield (piece.ranges,)
    elif isinstance(piece, Choice):
        for part in piece.parts:
            yield from _sequences(part)
    elif isinstance(piece, Concat | Times):
        if isinstance(piece, Times) and piece.low > _MAX_BEHIND:
            raise _behind(f"of more than {_MAX_BEHIND} characters")
        parts = piece.parts if isinstance(piece, Concat) else (piece.body,) * piece.low
        found: list[tuple[Ranges, ...]] = [()]
        for part in parts:
            options = list(_sequences(part))
            if len(found) * len(options) > _MAX_BEHIND:
                raise _behind(f"with more than {_MAX_BEHIND} alternatives")
            found = [(*first, *second) for first in found for second in options]
        yield from found
    else:
        raise _behind("that holds an assertion")
