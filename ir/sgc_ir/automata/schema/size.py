"""A bound on what a schema holds, counted as it would be written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.errors import ConstraintError

MAX_PARTS = 1_000_000
_LETTERS = 16  # so many characters count as one more part


def check_size(schema: Any) -> None:
    """Refuse what has more than `MAX_PARTS` values and names, 16 letters of a text as one more.

    A part that stands in several places counts in each, because it is written in each: a few
    objects within one another, twice each, are more than any memory holds.

    Raises:
        ConstraintError: kind "limit".
    """
    left, stack = MAX_PARTS, [schema]
    while stack:
        value = stack.pop()
        left -= 1
        if isinstance(value, str):
            left -= len(value) // _LETTERS
        elif isinstance(value, Mapping):
            stack.extend(value.values())
            stack.extend(value)
        elif isinstance(value, list | tuple):
            stack.extend(value)
        if left < len(stack):
            raise ConstraintError(
                f"the schema has more than {MAX_PARTS:,} parts, where a shared part counts each "
                "time and one inside itself without end; use $defs and $ref",
                where="#",
            )
