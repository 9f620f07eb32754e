"""The keyword `pattern`: a search, read so that ECMA-262 and Python agree on what is legal.

The two dialects differ in what `\\d`, `\\w`, `\\s` and `$` mean. Where a pattern is to be met, a
character is legal where Python's reading and the ASCII one both allow it, and `$` is the end of the
text; where it is not to be met, the wider reading holds. So `jsonschema`, which uses `re`, agrees.
"""

from __future__ import annotations

import re
from functools import lru_cache

from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex_parse import parse
from sgc_ir.automata.regex_read import BEHIND, read
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
from sgc_ir.automata.schema.ecma import python_pattern
from sgc_ir.automata.utf8 import ALL_CHARS, Ranges, intersect, union
from sgc_ir.errors import ConstraintError

_ANY = Times(Chars(ALL_CHARS), 0, None)


_KEPT = 4096
_pieces: dict[tuple[str, bool], Piece] = {}


def search_piece(pattern: str, met: bool, pool: Pool) -> Piece:
    """What whole texts look like in which `pattern` is found.

    Args:
        met: whether the texts are wanted (narrow reading) or forbidden (wide reading).
        pool: whose time and limits the work takes; the result is remembered for all.

    Raises:
        ConstraintError: the pattern is malformed, or has a construct that is not supported.
    """
    found = _pieces.get((pattern, met))
    if found is None:
        found = _read(pattern, met, pool)
        if len(_pieces) >= _KEPT:
            _pieces.clear()
        _pieces[pattern, met] = found
    return found


def readable_pattern(pattern: str, pool: Pool) -> str:
    """`pattern`, or where Python cannot read it what it means, in Python's dialect.

    Raises:
        ConstraintError: as `search_piece`; "unsupported" for what ECMA has and Python has not.
    """
    try:
        search_piece(pattern, True, pool)
        return pattern
    except ConstraintError as error:
        if error.kind != "malformed":
            raise
        if error.reason.startswith(BEHIND):
            reason = f"{BEHIND}, others are not supported; write the regex without it"
            raise ConstraintError(reason, kind="unsupported") from error
        written = python_pattern(pattern)
        if written == pattern:
            raise
    search_piece(written, True, pool)
    return written


def _read(pattern: str, met: bool, pool: Pool) -> Piece:
    pool.tick(len(pattern))
    tree, flags = parse(pattern, pool.limits)
    pool.tick(len(pattern))
    python = read(tree, flags, pool.tick)
    ascii_only = read(tree, flags & ~re.UNICODE | re.ASCII, pool.tick)
    return _anywhere(_merged(python, ascii_only, met))


def python_piece(pattern: str, pool: Pool) -> Piece:
    """What whole texts look like in which Python finds `pattern`; likewise, not remembered."""
    pool.tick(len(pattern))
    tree, flags = parse(pattern, pool.limits)
    return _anywhere(read(tree, flags, pool.tick))


def _anywhere(piece: Piece) -> Piece:
    choices = piece.parts if isinstance(piece, Choice) else (piece,)
    return _one([_surrounded(choice) for choice in choices])


def _merged(first: Piece, second: Piece, narrow: bool) -> Piece:
    """One reading out of two of one pattern."""
    if isinstance(first, Chars) and isinstance(second, Chars):
        if first.ranges == second.ranges:
            return first
        return Chars(_shared(first.ranges, second.ranges, narrow))
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


@lru_cache(maxsize=256)
def _shared(first: Ranges, second: Ranges, narrow: bool) -> Ranges:
    return (intersect if narrow else union)(first, second)


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
