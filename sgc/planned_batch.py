"""Runs a list of rows in the order of a plan, and gives their states in their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sgc.batch import run_rows
from sgc_runtime.executor.state import FinishedState

if TYPE_CHECKING:
    from sgc.compile import CompiledProgram
    from sgc.runnable import Job, Runnable

Numbered = tuple[int, Any, int]  # a row's index, the row, characters that later ones share


def run_planned(
    given: Runnable, program: CompiledProgram, job: Job, rows: Sequence[Any], progress: bool
) -> list[FinishedState]:
    """States of all rows, in the order of `rows`.

    Args:
        given: whose arguments rows give.
        program: what runs them.
    """
    job = replace(job, execute=program.execute)
    start = given._starter(job)
    order: list[int] = []

    def starts() -> Iterator[Numbered]:
        for numbered in _in_order(program, job, rows):
            order.append(numbered[0])
            yield numbered

    states = run_rows(
        starts(),
        lambda _, numbered: start(*numbered),
        job.settings.parallel,
        progress,
        lazy=False,
        total=len(rows),
    )
    found: list[FinishedState | None] = [None] * len(rows)
    for place, state in enumerate(states):
        found[order[place]] = state
    job.end()
    return [state for state in found if state is not None]


def _in_order(program: CompiledProgram, job: Job, rows: Sequence[Any]) -> Iterator[Numbered]:
    from sgc.planning import starts_in_order

    def known(numbered: tuple[int, Any]) -> tuple[int, Mapping[str, Any] | None]:
        return numbered[0], program.values_or_none(numbered[1])

    starts = starts_in_order(enumerate(rows), known, program.graph, job, len(rows))
    for (index, row), shared_chars in starts:
        yield index, row, shared_chars
