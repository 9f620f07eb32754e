"""Options of `sgc compile` for constant motion and its tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sgc.cli.failure import CommandError
from sgc_ir.passes.base import Context
from sgc_runtime.models import DEFAULT_MODEL

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram

F = TypeVar("F", bound=Callable[..., Any])
SAMPLE = 20  # rows of the output test
TABLE = 1000  # rows that say how much fields differ
_OPTIONS = (
    click.option(
        "--reorder",
        is_flag=True,
        help="Pass `reorder`: move instructions in front of what differs by row, so that rows "
        "share longer prefixes. It changes prompts; the artefact keeps the order as written, and "
        "says what moved. Gains are counted in tokens with --tokenizer, else in words.",
    ),
    click.option(
        "--reorder-judge",
        "judge",
        is_flag=True,
        help="Ask a model about each move, and keep the order where it does not say yes.",
    ),
    click.option(
        "--reorder-rows",
        "rows",
        metavar="ROWS",
        help=f"Run up to {SAMPLE} of these rows in both orders, and keep the order as written "
        f"where outputs change by more than --reorder-bound. Fields of a record (lines of a label "
        f"and an argument) that differ least in the first {TABLE:,} rows come first.",
    ),
    click.option(
        "--reorder-bound",
        "bound",
        type=click.FloatRange(0, 1),
        default=0.1,
        metavar="X",
        help="Largest mean change: of a select the total variation distance of its distribution, "
        "of a gen 0 where the greedy text is the same, else 1. Default: 0.1.",
    ),
    click.option(
        "--reorder-model",
        "model",
        metavar="M",
        help=f"Model of both tests. Default: what the file sets, else {DEFAULT_MODEL}.",
    ),
)


def reorder_options(function: F) -> F:
    """Add the options; they arrive as keywords that `ReorderOptions` takes."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@dataclass(frozen=True, slots=True)
class ReorderOptions:
    """What the command line says about constant motion.

    Raises CommandError for a test without the motion.
    """

    reorder: bool
    judge: bool
    rows: str | None
    bound: float
    model: str | None

    def __post_init__(self) -> None:
        if self.has_tests and not self.reorder:
            raise CommandError("there is no motion to test", "add --reorder")

    @property
    def has_tests(self) -> bool:
        return self.judge or self.rows is not None

    def informed(self, context: Context) -> Context:
        """What passes know, with rows for the order of fields.

        Raises CommandError for rows that cannot be read.
        """
        if self.rows is None:
            return context
        from sgc.cli.inputs import Inputs

        rows = islice(Inputs(self.rows, lambda name, cell: cell).rows(), TABLE)
        return replace(context, rows=[row.arguments for row in rows if row.arguments is not None])

    def settle(self, program: CompiledProgram, context: Context, quiet: bool) -> CompiledProgram:
        """The program without moves that fail a test; what was found is said on standard error.

        Raises CommandError for rows that cannot be read, ModelError without a model.
        """
        if not self.has_tests:
            return program
        from sgc.cli.backend import choose_backend, fetch
        from sgc.cli.failure import say
        from sgc.reordering import Checks, settle

        tests = Checks(self.judge, self._sample(program), self.bound)
        backend = choose_backend(None, {"model": self.model} if self.model else {})
        fetch(backend, quiet)
        found, said = settle(program, tests, backend, context)
        for line in said if not quiet else ():
            say(f"sgc: reorder: {line}")
        return found

    def _sample(self, program: CompiledProgram) -> list[Any]:
        if self.rows is None:
            return []
        from sgc.cli.inputs import Inputs
        from sgc.cli.runnables import params_of
        from sgc.cli.values import cell_converter

        rows = Inputs(self.rows, cell_converter(params_of(program))).rows()
        return [dict(row.arguments) for row in islice(rows, SAMPLE) if row.arguments is not None]
