"""Errors of lark's readers as ours."""

from __future__ import annotations

from typing import Any

from sgc_ir.errors import ConstraintError


def malformed(error: Exception, line: Any = None, column: Any = None) -> ConstraintError:
    """`error` in one line, with the place where it is known (1-based)."""
    lines = [part.strip() for part in str(error).splitlines() if part.strip()]
    cause = lines[0].rstrip(".:") if lines else type(error).__name__
    known = isinstance(line, int) and line > 0
    where = f"line {line}, column {column}" if known else ""
    return ConstraintError(f"{cause[:200]}; mend the grammar", kind="malformed", where=where)
