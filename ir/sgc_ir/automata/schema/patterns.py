"""The keyword `pattern`: a search, read so that ECMA-262 and Python agree on what is legal.

The two dialects differ in what `\\d`, `\\w`, `\\s` and `$` mean. Where a pattern is to be met, a
character is legal where Python's reading and the ASCII one both allow it, and `$` is the end of the
text; where it is not to be met, the wider reading holds. So `jsonschema`, which uses `re`, agrees.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sgc_ir.automata.limits import Limits
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import read
from sgc_ir.automata.regex_tree import (
    Ahead,
    Begin,
    Chars,
    Choice,
    Concat,
    End,
    Piece,
    Times,
)
from sgc_ir.automata.utf8 import ALL_CHARS, intersect, union

_ANY = Times(Chars(ALL_CHARS), 0, None)


@lru_cache(maxsize=4096)
def search_piece(pattern: str, met: bool, limits: Limits) -> Piece:
    """What whole texts look like in which `pattern` is found.

    Args:
        met: whether the texts are wanted (narrow reading) or forbidden (wide reading).

    Raises:
        ConstraintError: the pattern is malformed, or has a construct that is not supported.
    """
    tree, flags = parse(pattern, limits)
    python = read(tree, flags)
    ascii_only = read(tree, flags & ~re.UNICODE | re.ASCII)
    piece = _merged(python, ascii_only, met)
    choices = piece.parts if isinstance(piece, Choice) else (piece,)
    return _one([_surrounded(choice) for choice in choices])


def _merged(first: Piece, second: Piece, narrow: bool) -> Piece:
    """One reading out of two of one pattern."""
    if isinstance(first, Chars) and isinstance(second, Chars):
        if first.ranges == second.ranges:
            return first
        return Chars((intersect if narrow else union)(first.ranges, second.ranges))
    if isinstance(first, Concat) and isinstance(second, Concat):
        return Concat(_all_merged(first.parts, second.parts, narrow))
    if isinstance(first, Choice) and isinstance(second, Choice):
        return Choice(_all_merged(first.parts, second.parts, narrow))
    if isinstance(first, Times) and isinstance(second, Times):
        return Times(_merged(first.body, second.body, narrow), first.low, first.high)
    if isinstance(first, Ahead) and isinstance(second, Ahead):
        return Ahead(_merged(first.body, second.body, narrow != first.negative), first.negative)
    if isinstance(first, End):
        return End("text") if narrow and first.kind == "newline" else first
    return first


def _all_merged(
    first: tuple[Piece, ...], second: tuple[Piece, ...], narrow: bool
) -> tuple[Piece, ...]:
    return tuple(_merged(a, b, narrow) for a, b in zip(first, second, strict=True))


def _surrounded(piece: Piece) -> Piece:
    """Anything before and after `piece`, but for the ends that it is tied to."""
    parts = list(piece.parts) if isinstance(piece, Concat) else [piece]
    before: list[Piece] = [_ANY]
    after: list[Piece] = [_ANY]
    if parts and isinstance(parts[0], Begin) and not parts[0].lines:
        parts, before = parts[1:], []
    if parts and isinstance(parts[-1], End) and parts[-1].kind == "text":
        parts, after = parts[:-1], []
    return Concat((*before, *parts, *after))


def _one(choices: list[Piece]) -> Piece:
    return choices[0] if len(choices) == 1 else Choice(tuple(choices))
