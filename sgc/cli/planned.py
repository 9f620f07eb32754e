"""What `sgc run` makes of all its rows: constants of the run, and the order of their starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc.cli.failure import CommandError
from sgc.cli.inputs import Inputs, Row
from sgc.common_values import common_values
from sgc_ir.errors import InputError

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram
    from sgc.runnable import Job, Runnable


def count_and_common(inputs: Inputs, program: Runnable) -> tuple[int | None, dict[str, Any]]:
    """Number of rows, and the arguments that are the same in all of them; (None, {}) for inputs
    that can be read only once.

    Raises CommandError as `Inputs.count` does.
    """
    total = inputs.count()
    if total is None or total < 2:
        return total, {}
    return total, common_values(_values(program, row) for row in inputs.rows())


def _values(program: Runnable, row: Row) -> Mapping[str, Any] | None:
    if row.arguments is None:
        return None
    try:
        return program.arguments((), row.arguments)
    except InputError:
        return None  # the row says so when it runs


def check_reordering(reorder: bool, plan: bool, mode: str) -> None:
    """Raises CommandError where `--reorder-rows` would do nothing."""
    if reorder and not plan:
        raise CommandError("--reorder-rows together with --no-plan", "drop one")
    if reorder and mode != "compiled":
        raise CommandError(
            "--reorder-rows: the program is not compiled, nothing is known of its prompts before",
            "drop it, or mend what keeps the program from being compiled",
        )


def in_plan_order(
    rows: Iterable[Row],
    program: CompiledProgram,
    job: Job,
    total: int | None,
    reorder: bool,
) -> Iterator[Row]:
    """The rows in the order in which to start them; as they come where that gains nothing.

    Args:
        program: what runs, constants of the run in it.
        total: rows that have to run; of unknown ones nobody waits for more than the next.
        reorder: plan all rows at once, not window by window.
    """
    from sgc.planning import starts_in_order

    def known(row: Row) -> tuple[int, Mapping[str, Any] | None]:
        return row.index, _values(program, row)

    starts = starts_in_order(rows, known, program.graph, job, total, reorder)
    for row, shared_chars in starts:
        yield replace(row, shared_chars=shared_chars) if shared_chars else row
