"""Patterns whose every text is its own match, seen from their form alone."""

from __future__ import annotations

from sgc_ir.automata.regex_context import intersect_cached
from sgc_ir.automata.regex_tree import Chars, Choice, Concat, Piece, Text, Times
from sgc_ir.automata.utf8 import Ranges, union


def is_decided(piece: Piece) -> bool:
    """Whether the next character always says which way a match goes on, and going on is preferred
    to ending: then the longest match is the preferred one, on each text. False where that is not
    seen at once."""
    return not piece.asserts and _decided(piece, (), True)


def _first(piece: Piece) -> Ranges:
    """The characters that a text of `piece` can begin with."""
    if isinstance(piece, Text):
        return ((ord(piece.text[0]), ord(piece.text[0])),)
    if isinstance(piece, Chars):
        return piece.ranges
    if isinstance(piece, Choice):
        return union(*[_first(part) for part in piece.parts])
    if isinstance(piece, Concat):
        found: list[Ranges] = []
        for part in piece.parts:
            found.append(_first(part))
            if not part.nullable:
                break
        return union(*found)
    return _first(piece.body) if isinstance(piece, Times) and piece.high != 0 else ()


def _decided(piece: Piece, follow: Ranges, may_end: bool) -> bool:
    """`follow`: what can come behind `piece`; `may_end`: whether the match can end there."""
    if isinstance(piece, Concat):
        for part in reversed(piece.parts):
            if not _decided(part, follow, may_end):
                return False
            follow = union(_first(part), follow) if part.nullable else _first(part)
            may_end = may_end and part.nullable
        return True
    if isinstance(piece, Choice):
        return _decided_choice(piece, follow, may_end)
    return not isinstance(piece, Times) or _decided_times(piece, follow, may_end)


def _decided_choice(piece: Choice, follow: Ranges, may_end: bool) -> bool:
    if any(part.nullable for part in piece.parts[:-1]):
        return False
    seen: Ranges = follow if piece.nullable else ()
    for part in piece.parts:
        first = _first(part)
        if intersect_cached(seen, first) or not _decided(part, follow, may_end):
            return False
        seen = union(seen, first)
    return True


def _decided_times(piece: Times, follow: Ranges, may_end: bool) -> bool:
    if piece.high == 0:
        return True
    body, first = piece.body, _first(piece.body)
    if body.nullable:
        return False
    if piece.low != piece.high:
        if (piece.lazy and may_end) or intersect_cached(first, follow):
            return False
    inner = follow if piece.high == 1 else union(first, follow)
    return _decided(body, inner, may_end)
