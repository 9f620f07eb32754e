"""`sgc.first`, and what `sgc.map` and its like ask about the programs that they are given."""

from __future__ import annotations

from typing import Any

from sgc.lang.current import current_driver
from sgc.lang.function import ProgramSpec
from sgc.lang.source import refusal
from sgc.lang.tools import Tool
from sgc_ir.errors import SgcError


def is_program(value: Any) -> bool:
    """Whether `value` was made by `@sgc.function`."""
    return isinstance(getattr(value, "spec", None), ProgramSpec)


def is_tool(value: Any) -> bool:
    """Whether `value` was made by `@sgc.tool`."""
    return isinstance(value, Tool)


def first(k: int, branches: Any) -> list[Any]:
    """What the first `k` of `branches` to finish give; the others are cancelled.

    Branches are those of a fork, which give the variables that they have set, as a dict; or
    sub-programs, as `[program(x), ...]`, which give their return values. The list is in the order
    of the branches, whichever was faster. A branch has finished when all that it gives is there,
    and of those that have finished when the last one is noticed, the first in order are taken.

    The others end at once: their calls in flight leave the backend, nothing of them counts as
    used, and reading one raises GenerationError. A branch that fails is not among the first, and
    its error counts only when fewer than `k` are left. Nothing can be appended to the branches.

    Raises CompileError for what are no branches or sub-programs, for a `k` that is not between 1
    and their number, for a branch without variables, and for sub-programs whose tools have effects.
    """
    driver = current_driver()
    if driver is None:
        raise SgcError("sgc.first outside of a program; call it inside of one")
    found: list[Any] = driver.first(k, branches)
    return found


def check_program(what: str, value: Any) -> None:
    """Refuse what is not a program. Raises CompileError."""
    if not is_program(value):
        raise refusal(f"sgc.{what}: {value!r} is no program; give one made by @sgc.function")
