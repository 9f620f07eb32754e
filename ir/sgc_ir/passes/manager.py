"""The list of passes, in the order in which they run, and the one place that runs them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from sgc_ir.errors import CompileError, InputError
from sgc_ir.graph import Program
from sgc_ir.passes.base import Context, Pass, Report
from sgc_ir.verify import verify


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the list.

    Attributes:
        module: below `sgc_ir.passes`.
        default: runs unless it is left out; the others run where they are asked for.
        sense: what it does, in one line.
    """

    module: str
    default: bool
    sense: str


# In this order: `rows` makes constants that `fold` folds, `fold` makes texts that `texts` merges.
# `reorder` keeps the graph as it was before.
PASSES: dict[str, Row] = {
    "rows": Row("rows", True, "put arguments in that are the same in every row"),
    "dead": Row("dead", True, "leave out what no declared output needs"),
    "fold": Row("fold", True, "evaluate expressions of constants"),
    "prune": Row("prune", True, "leave out arms whose condition is a constant"),
    "hoist": Row("hoist", True, "run what both arms of a branch begin with before it"),
    "texts": Row("texts", True, "merge constant texts that follow each other"),
    "merge": Row("merge", False, "run equal calls once"),
    "reorder": Row("reorder", False, "move instructions in front of what differs by row"),
}


def defaults() -> tuple[str, ...]:
    """Names of the passes that run unless they are left out."""
    return tuple(name for name, row in PASSES.items() if row.default)


def check_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names in the order in which the passes run. Raises InputError for an unknown one."""
    wanted = set(names)
    for name in sorted(wanted):
        if name not in PASSES:
            raise InputError(f"there is no pass {name!r}; the passes are {', '.join(PASSES)}")
    return tuple(name for name in PASSES if name in wanted)


def run_passes(
    program: Program,
    names: Sequence[str] | None = None,
    context: Context | None = None,
    check: bool = False,
) -> tuple[Program, list[Report]]:
    """The program after the passes `names` (the default ones, if not given), and what each did.

    With `check`, the graph is verified behind each pass that changed it, else behind the last.

    Raises:
        InputError: there is no pass of that name.
        CompileError: a pass broke the graph; it is named, with those before it.
    """
    ran: list[Report] = []
    changed = False
    for name in check_names(defaults() if names is None else names):
        found, report = _load(name).run(program, context or Context())
        ran.append(report)
        changed = changed or found is not program
        if check and found is not program:
            _verify(found, ran)
        program = found
    if changed and not check:
        _verify(program, ran)
    return program, ran


def _load(name: str) -> Pass:
    return cast(Pass, import_module(f"sgc_ir.passes.{PASSES[name].module}"))


def _verify(program: Program, ran: Sequence[Report]) -> None:
    try:
        verify(program, syntax=False)
    except CompileError as error:
        names = ", ".join(report.name for report in ran)
        raise CompileError(f"the passes {names} broke the graph, report it: {error}") from error
