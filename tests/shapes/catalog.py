"""A shape: one small program, the rows it runs on, and what must become of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sgc


@dataclass(frozen=True)
class Shape:
    """`refused` is a regular expression for the CompileError's text; a refused shape still runs
    interpreted, and `mode="auto"` falls back. `fails` names the error type every mode raises."""

    name: str
    program: sgc.Program
    rows: Sequence[Mapping[str, Any]]
    refused: str | None = None
    fails: str | None = None


SHAPES: list[Shape] = []


def shape(
    *rows: Mapping[str, Any],
    refused: str | None = None,
    fails: str | None = None,
) -> Callable[[Callable[..., Any]], sgc.Program]:
    """Make a program of a function and put it into the catalogue."""

    def wrap(fn: Callable[..., Any]) -> sgc.Program:
        program = fn if isinstance(fn, sgc.Program) else sgc.function(fn)
        SHAPES.append(Shape(program.spec.name, program, rows or ({},), refused, fails))
        return program

    return wrap
