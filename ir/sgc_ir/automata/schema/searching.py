"""Whether a pattern is found in a known text, as `re.search` says, in a time that is bounded.

`re` tries one way after the other and cannot be interrupted, so patterns that could have many ways
through a text are followed as expressions, all ways at once.
"""

from __future__ import annotations

import math
import re

from sgc_ir.automata.alike import derivative
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.regex import piece_expression
from sgc_ir.automata.regex_tree import Ahead, Choice, Concat, Piece, Times
from sgc_ir.automata.schema.patterns import python_piece
from sgc_ir.errors import ConstraintError

_MOST_WAYS = 1_000_000


class Searching:
    """Searches with the patterns of one document, in the time of its pool.

    Args:
        name: of the document.
    """

    def __init__(self, pool: Pool, name: str) -> None:
        self._pool, self._name = pool, name
        self._known: dict[str, tuple[Piece, float]] = {}

    def found(self, pattern: str, value: str) -> bool:
        """Whether `pattern` is found in `value`.

        Raises:
            ConstraintError: it is no regular expression, or a limit is passed.
        """
        piece, exponent = self._piece(pattern)
        if exponent == math.inf or len(value) ** (1 + exponent) > _MOST_WAYS:
            return self._follow(pattern, piece, value)
        try:
            return re.search(pattern, value) is not None
        except (re.error, OverflowError, RecursionError) as error:
            raise ConstraintError(
                f"the pattern is no regular expression: {error}; mend it", kind="malformed"
            ) from error

    def _piece(self, pattern: str) -> tuple[Piece, float]:
        known = self._known.get(pattern)
        if known is None:
            piece = python_piece(pattern, self._pool)
            known = self._known[pattern] = piece, _exponent(piece)
        return known

    def _follow(self, pattern: str, piece: Piece, value: str) -> bool:
        node = piece_expression(self._pool, piece, f"{self._name}.s{pattern}")
        for byte in value.encode("utf-8", "replace"):
            following = derivative(node.row(self._pool), byte)
            if following is None:
                return False
            node = following
        return node.nullable


def _exponent(piece: Piece) -> float:
    """How fast the ways through a text can grow with its length: as this power of it."""
    if isinstance(piece, Concat):
        return sum(map(_exponent, piece.parts))
    if isinstance(piece, Choice):
        return max(map(_exponent, piece.parts), default=0)
    if isinstance(piece, Ahead):
        return _exponent(piece.body)
    if not isinstance(piece, Times):
        return 0
    if piece.high != 1 and _branches(piece.body):
        return math.inf
    return _exponent(piece.body) + (piece.low != piece.high)


def _branches(piece: Piece) -> bool:
    """Whether there may be several ways through one text."""
    if isinstance(piece, Concat):
        return any(map(_branches, piece.parts))
    if isinstance(piece, Times):
        return piece.low != piece.high or _branches(piece.body)
    return isinstance(piece, Choice) or (isinstance(piece, Ahead) and _branches(piece.body))
