"""Reads the text form of a program; every refusal shows the line with a caret."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from sgc_ir.errors import ArtifactError, CompileError
from sgc_ir.graph import Program
from sgc_ir.textform.build import BuildProgram, Misplaced
from sgc_ir.verify import verify

_WORDS = {
    "REF": "%id",
    "NAME": "a name",
    "STRING": "a string",
    "BYTES": "bytes",
    "INT": "a number",
    "HEX": "a number",
    "FLOAT": "a number",
    "NAN": "a number",
    "$END": "the end",
}


def parse_program(text: str, name: str = "<text>", check: bool = True) -> Program:
    """The program that `text` describes, verified unless `check` is off.

    Raises ArtifactError: `NAME:LINE:COLUMN: reason`, the line and a caret.
    """
    try:
        program: Program = _parser().parse(text)
    except Misplaced as error:
        raise _refusal(text, name, error.line, error.column, str(error)) from error
    except UnexpectedInput as error:
        raise _unexpected(text, name, error) from error
    if check:
        try:
            verify(program)
        except CompileError as error:
            raise ArtifactError(f"{name}: {error}") from error
    return program


@lru_cache(maxsize=1)
def _parser() -> Lark:
    grammar = Path(__file__).with_name("program.lark").read_text(encoding="utf-8")
    return Lark(
        grammar, start="program", parser="lalr", maybe_placeholders=True, transformer=BuildProgram()
    )


def _unexpected(text: str, name: str, error: UnexpectedInput) -> ArtifactError:
    expected = error.accepts or error.expected if isinstance(error, UnexpectedToken) else set()
    if isinstance(error, UnexpectedCharacters):
        reason, expected = f"unexpected {error.char!r}", error.allowed or set()
    elif isinstance(error, UnexpectedEOF) or getattr(error.token, "type", "") == "$END":
        lines = text.splitlines() or [""]
        reason = f"the text ends too early{_expected(expected)}"
        return _refusal(text, name, len(lines), len(lines[-1]) + 1, reason)
    else:
        reason = f"unexpected {str(error.token)!r}"
    return _refusal(text, name, error.line, error.column, reason + _expected(expected))


def _expected(terminals: set[str]) -> str:
    terminal_of = {t.name: t for t in _parser().terminals}
    words = set()
    for name in terminals:
        literal = terminal_of.get(name)
        shown = getattr(getattr(literal, "pattern", None), "value", name)
        words.add(_WORDS.get(name) or f"{shown!r}")
    return f", expected {' or '.join(sorted(words))}" if 0 < len(words) <= 6 else ""


def _refusal(text: str, name: str, line: int, column: int, reason: str) -> ArtifactError:
    lines = text.split("\n")
    shown = lines[line - 1] if 0 < line <= len(lines) else ""
    start = max(0, column - 60)
    window = shown[start : start + 100].replace("\t", " ")
    caret = " " * (column - 1 - start) + "^"
    return ArtifactError(f"{name}:{line}:{column}: {reason}\n    {window}\n    {caret}")
