"""What `sgc.map` and its like ask about the programs and functions that they are given."""

from __future__ import annotations

from typing import Any

from sgc.lang.function import ProgramSpec
from sgc.lang.source import refusal
from sgc.lang.tools import Tool


def is_program(value: Any) -> bool:
    """Whether `value` was made by `@sgc.function`."""
    return isinstance(getattr(value, "spec", None), ProgramSpec)


def is_tool(value: Any) -> bool:
    """Whether `value` was made by `@sgc.tool`."""
    return isinstance(value, Tool)


def check_program(what: str, value: Any) -> None:
    """Refuse what is not a program. Raises CompileError."""
    if not is_program(value):
        raise refusal(f"sgc.{what}: {value!r} is no program; give one made by @sgc.function")
