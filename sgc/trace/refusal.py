"""How the tracer says no: one refusal type, with the place and text of the user's expression.

Rewritten code keeps the positions of the source, so the innermost rewritten frame on the stack
tells file, line and columns of what is being evaluated.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType

from sgc.lang.source import is_own_module, source_at
from sgc_ir.errors import CompileError
from sgc_ir.graph import Source

_MAX_EXPRESSION = 80  # characters of an expression that are shown


class Refusal(BaseException):
    """A construct that is not compiled. No `except Exception` of a program may swallow it."""

    def __init__(self, error: CompileError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True)
class CodeText:
    """Source lines of rewritten code; `first_line` is the 1-based number of `lines[0]`."""

    lines: tuple[str, ...]
    first_line: int

    def slice(self, line: int, end_line: int, column: int, end_column: int) -> str:
        """The text between two positions (columns in UTF-8 bytes), on one line."""
        rows = self.lines[line - self.first_line : end_line - self.first_line + 1]
        if not rows:
            return ""
        if len(rows) == 1:
            return rows[0].encode()[column:end_column].decode(errors="replace")
        first = rows[0].encode()[column:].decode(errors="replace")
        last = rows[-1].encode()[:end_column].decode(errors="replace")
        return " ".join(part.strip() for part in (first, *rows[1:-1], last))


_TEXTS: dict[int, tuple[CodeType, CodeText]] = {}  # id -> code (kept alive) and its text


def register_code(code: CodeType, text: CodeText) -> None:
    """Remember that `code`, and all code inside of it, is rewritten from `text`."""
    _TEXTS[id(code)] = (code, text)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            register_code(constant, text)


def is_rewritten(code: CodeType) -> bool:
    """Whether `code` came out of the rewriter."""
    return id(code) in _TEXTS


def _is_users(frame: FrameType) -> bool:
    """Whether a frame runs rewritten code of the user, not of a pattern that comes with sgc."""
    return is_rewritten(frame.f_code) and not is_own_module(frame.f_globals.get("__name__", ""))


def user_frame() -> FrameType | None:
    """The innermost frame of the user's rewritten code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not _is_users(frame):
        frame = frame.f_back
    return frame


def here() -> Source:
    """Place in the user's program that is being evaluated."""
    frame = user_frame()
    return source_at(frame.f_code.co_filename, frame.f_lineno) if frame is not None else Source()


def expression_here() -> str:
    """Text of the expression that is being evaluated, "" where it is not known."""
    frame = user_frame()
    if frame is None:
        return ""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = positions
    if line is None or end_line is None or column is None or end_column is None:
        return ""
    text = _TEXTS[id(frame.f_code)][1].slice(line, end_line, column, end_column)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_EXPRESSION else text[: _MAX_EXPRESSION - 3] + "..."


def refuse(reason: str, *, place: Source | None = None, expression: str | None = None) -> Refusal:
    """A refusal `FILE:LINE: expression: reason` at the place that is being evaluated."""
    where = place if place is not None else here()
    shown = expression if expression is not None else ("" if place else expression_here())
    message = f"{shown}: {reason}" if shown else reason
    return Refusal(CompileError(message, where.file or None, where.line or None))


def place_of(trace: TracebackType | None) -> Source:
    """Place of the user's innermost frame in a traceback; an empty Source if there is none."""
    found = Source()
    while trace is not None:
        if _is_users(trace.tb_frame):
            found = source_at(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found
