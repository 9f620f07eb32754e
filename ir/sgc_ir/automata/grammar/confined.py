"""Whether a terminal's pattern looks at nothing but the terminal's own characters.

A lexer tries a terminal in the middle of a text, so an assertion that can look outside would make
the terminal depend on its neighbours. Those patterns are refused.
"""

from __future__ import annotations

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
from sgc_ir.errors import ConstraintError

_FAR = 1 << 40  # more characters than any text has


def check_confined(piece: Piece) -> None:
    """Refuse a pattern with an assertion that can look outside the text it matches.

    Raises:
        ConstraintError: kind "unsupported".
    """
    if piece.asserts:
        _check(piece, 0, 0)


def least(piece: Piece) -> int:
    """The fewest characters that `piece` matches."""
    if isinstance(piece, Text):
        return len(piece.text)
    if isinstance(piece, Chars):
        return 1
    if isinstance(piece, Concat):
        return sum(map(least, piece.parts))
    if isinstance(piece, Choice):
        return min(map(least, piece.parts), default=0)
    return piece.low * least(piece.body) if isinstance(piece, Times) else 0


def _most(piece: Piece) -> int:
    """The most characters that `piece` matches."""
    if isinstance(piece, Text | Chars):
        return least(piece)
    if isinstance(piece, Concat):
        return min(sum(map(_most, piece.parts)), _FAR)
    if isinstance(piece, Choice):
        return max(map(_most, piece.parts), default=0)
    if isinstance(piece, Times):
        return min(_most(piece.body) * (_FAR if piece.high is None else piece.high), _FAR)
    return 0


def _seen(piece: Piece) -> int:
    """How many characters from its place on `piece` can look at."""
    if isinstance(piece, Ahead):
        return _seen(piece.body)
    if isinstance(piece, Border):
        return 1
    if isinstance(piece, Choice):
        return max(map(_seen, piece.parts), default=0)
    if isinstance(piece, Concat):
        place = furthest = 0
        for part in piece.parts:
            furthest = max(furthest, place + _seen(part))
            place = min(place + _most(part), _FAR)
        return min(max(furthest, place), _FAR)
    if isinstance(piece, Times):
        return min(_most(piece) + _seen(piece.body), _FAR)
    return _most(piece)


def _check(piece: Piece, before: int, after: int) -> None:
    """`before`, `after`: the fewest characters that stand on each side within the match."""
    if isinstance(piece, Begin | End):
        raise _refused("an anchor")
    if isinstance(piece, Behind):
        if max(map(len, piece.choices), default=0) > before:
            raise _refused("a lookbehind that can look before it")
    elif isinstance(piece, Border):
        if not (before and after):
            raise _refused("\\b or \\B at its edge")
    elif isinstance(piece, Ahead):
        if _seen(piece.body) > after:
            raise _refused("a lookahead that can look behind its end")
        _check(piece.body, before, after)
    elif isinstance(piece, Times):
        _check(piece.body, before, after)
    elif isinstance(piece, Choice):
        for part in piece.parts:
            _check(part, before, after)
    elif isinstance(piece, Concat):
        counts = [least(part) for part in piece.parts]
        for i, part in enumerate(piece.parts):
            _check(part, before + sum(counts[:i]), after + sum(counts[i + 1 :]))


def _refused(what: str) -> ConstraintError:
    return ConstraintError(
        f"{what} is not supported in a terminal; write the pattern without it", kind="unsupported"
    )
