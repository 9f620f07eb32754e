"""`--explain-breaks`: what of a program is not compiled, as lines; and the counts of `--stats`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from sgc.breaks.report import BreakLog
from sgc.cli.common import print_result
from sgc.cli.failure import say
from sgc.cli.programs import load_program
from sgc.program import Program
from sgc.runnable import Job, Runnable
from sgc_ir.errors import CompileError


def breaks_of(program: Runnable, job: Job) -> BreakLog | None:
    """What the run in compiled parts tells; None for a run in another mode."""
    return program.breaks if isinstance(program, Program) and job.mode == "mixed" else None


def node_counts(program: Runnable, job: Job, started: int) -> dict[str, Any]:
    """How many nodes ran compiled and how many not, for `--stats`; `started` of graphs."""
    log = breaks_of(program, job)
    if log is None:
        if job.mode == "compiled":
            return {"compiled_nodes": started, "interpreted_nodes": 0}
        return {"compiled_nodes": 0, "interpreted_nodes": None}
    return {
        "compiled_nodes": log.compiled,
        "interpreted_nodes": log.interpreted,
        "compiled_share": log.share,
        "breaks": [asdict(found) for found in log.breaks()],
    }


def say_breaks(wanted: bool, program: Runnable, job: Job) -> None:
    """The breaks of a run that has ended, on standard error, if they are `wanted`."""
    if not wanted:
        return
    log = breaks_of(program, job)
    if log is None:
        say(f"sgc: no breaks: the program ran {job.mode}")
        return
    for found in log.breaks():
        say(f"sgc: break: {found}")
    nodes = log.compiled + log.interpreted
    say(f"sgc: {log.compiled:,} of {nodes:,} nodes ran compiled ({log.share:.1%})")


@contextmanager
def explaining(wanted: bool, program: str, static: Mapping[str, Any]) -> Iterator[None]:
    """Where the block refuses PROGRAM.py[:FUNCTION], print all of its breaks first, if `wanted`."""
    try:
        yield
    except CompileError:
        if wanted:
            from sgc.breaks.look import find_breaks

            spec = load_program(program).spec.bind(static)
            print_result("".join(f"{found}\n" for found in find_breaks(spec)))
        raise
