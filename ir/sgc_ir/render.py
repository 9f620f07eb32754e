"""Shows a program in one of several formats."""

from __future__ import annotations

from collections.abc import Callable

from sgc_ir.drawing.dot import dot
from sgc_ir.drawing.json_form import json_form
from sgc_ir.drawing.mermaid import mermaid
from sgc_ir.drawing.svg import svg
from sgc_ir.graph import Program
from sgc_ir.textform.printer import print_program

RENDERERS: dict[str, Callable[[Program], str]] = {
    "text": print_program,
    "mermaid": mermaid,
    "dot": dot,
    "svg": svg,
    "json": json_form,
}
FORMATS = tuple(RENDERERS)


def render(program: Program, format: str = "text") -> str:
    """`program` in a format of `FORMATS`. Raises ValueError for another one."""
    if format not in RENDERERS:
        raise ValueError(f"unknown format {format!r}; known are {', '.join(FORMATS)}")
    return RENDERERS[format](program)
