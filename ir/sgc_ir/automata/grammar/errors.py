"""Errors of lark's readers as ours."""

from __future__ import annotations

import re
from typing import Any

from sgc_ir.errors import ConstraintError

_PLACE = re.compile(r",? at line (\d+),? col(?:umn)? (\d+)( in <string>)?")


def malformed(error: Exception, line: Any = None, column: Any = None) -> ConstraintError:
    """`error` in one line, with the place where it is known (1-based)."""
    lines = [part.strip() for part in str(error).splitlines() if part.strip()]
    cause = lines[0] if lines else type(error).__name__
    told = _PLACE.search(cause)
    if told is not None:
        cause = cause[: told.start()] + cause[told.end() :]
    if not (isinstance(line, int) and line > 0) and told is not None:
        line, column = int(told[1]), int(told[2])
    where = f"line {line}, column {column}" if isinstance(line, int) and line > 0 else ""
    cause = cause.rstrip(".:,")[:200]
    return ConstraintError(f"{cause}; mend the grammar", kind="malformed", where=where)
