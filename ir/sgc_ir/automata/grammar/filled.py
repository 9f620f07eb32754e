"""Repetitions of what may be empty, as repetitions of what is not."""

from __future__ import annotations

from sgc_ir.automata.regex_tree import Choice, Concat, Piece, Times
from sgc_ir.errors import ConstraintError


def filled(piece: Piece) -> Piece:
    """The texts of `piece` that are not empty, in the same order of preference.

    An iteration that matches nothing ends Python's loops, so where the empty text is what an
    iteration likes least, iterations of these texts say the same.

    Raises:
        ConstraintError: the empty text is not what `piece` likes least, or an assertion says
            whether it matches ("unsupported").
    """
    if not piece.nullable:
        return piece
    if not piece.asserts:
        if isinstance(piece, Concat):
            parts = piece.parts
            return Choice(
                tuple(Concat((filled(part), *parts[i + 1 :])) for i, part in enumerate(parts))
            )
        if isinstance(piece, Choice) and not any(part.nullable for part in piece.parts[:-1]):
            return Choice(tuple(filled(part) for part in piece.parts))
        if isinstance(piece, Times) and not piece.lazy:
            body, high = filled(piece.body), piece.high
            if high == 0:
                return Choice(())
            return Concat((body, Times(body, 0, None if high is None else high - 1)))
    raise ConstraintError(
        "a repetition of what may be empty, and is not empty at last only, is not supported in a "
        "terminal; write the repeated part so that it is never empty",
        kind="unsupported",
    )
