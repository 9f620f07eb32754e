"""Tests of a changed order of texts: a judge model reads it, sample rows show what comes of it.

The rules of `sgc_ir.passes.motion` say first what may move. These tests can only take moves back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sgc
from sgc.compile import CompiledProgram
from sgc_ir.errors import InputError
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import run_passes
from sgc_ir.passes.reorder import NAME, restore
from sgc_runtime.executor.backend import Backend
from sgc_runtime.executor.state import FinishedState

BOUND = 0.1  # mean change of what the model says, from 0 (the same) to 1


@sgc.function
def same_sense(s, before: str, after: str):  # type: ignore[no-untyped-def]
    """Ask a model whether two orders of one prompt ask for the same."""
    s += sgc.system(
        "You compare prompts. A word in braces stands for text that is filled in later."
    )
    s += sgc.user(
        f"Prompt 1:\n<<<\n{before}\n>>>\n\nPrompt 2:\n<<<\n{after}\n>>>\n\nPrompt 2 has the "
        "paragraphs of prompt 1 in another order. Does it ask a careful reader for exactly the "
        "same, with nothing that points to a wrong place? Answer yes or no."
    )
    s += sgc.assistant(sgc.select("same", ["yes", "no"]))
    return s["same"] == "yes"


@dataclass(frozen=True, slots=True)
class OutputTest:
    """What sample rows gave before and after.

    Attributes:
        rows: rows that ran well in the order as written.
        selects, gens: calls that were compared, over all rows.
        change: mean over these calls of how far what the model says has moved: of a select the
            total variation distance of the distributions over its choices, of a gen 0 where the
            greedy text is the same, else 1; a row that fails only after the motion counts 1.
    """

    rows: int
    selects: int
    gens: int
    change: float


def judged(moves: Sequence[Mapping[str, Any]], backend: Backend) -> list[bool]:
    """For each move of a reordered program whether the judge model takes it for harmless. A judge
    that fails says no."""
    rows = [{"before": move["before"], "after": move["after"]} for move in moves]
    states = same_sense.run_batch(rows, backend=backend)
    return [state.error() is None and state.value is True for state in states]


def output_test(
    before: CompiledProgram, after: CompiledProgram, rows: Sequence[Any], backend: Backend
) -> OutputTest:
    """Run sample rows in both orders, greedily, and compare.

    Raises InputError where no row runs well in the order as written.
    """
    written, moved = (
        program.run_batch(rows, backend=backend, temperature=0.0) for program in (before, after)
    )
    changes: list[float] = []
    selects = good = 0
    for one, other in zip(written, moved, strict=True):
        if one.error() is not None:
            continue
        good += 1
        if other.error() is not None:
            changes.append(1.0)
            continue
        found = list(_changes(one, other))
        changes += [change for _, change in found]
        selects += sum(is_select for is_select, _ in found)
    if not good or not changes:
        raise InputError("no sample row made a call that can be compared; give other rows")
    return OutputTest(good, selects, len(changes) - selects, sum(changes) / len(changes))


def _changes(one: FinishedState, other: FinishedState) -> Iterator[tuple[bool, float]]:
    """For each call behind a variable: whether it is a select, and how far it has moved."""
    for name, value in one.vars.items():
        if name not in other.vars:
            yield False, 1.0
            continue
        pairs = list(_pairs(value, one.meta(name), other.vars[name], other.meta(name)))
        for a, meta_a, b, meta_b in pairs:
            if not isinstance(meta_a, Mapping) or not meta_a:
                continue  # a value that the program set
            before, after = meta_a.get("scores"), meta_b.get("scores") if meta_b else None
            if before is not None and after is not None and len(before) == len(after):
                yield True, distance(before, after)
            else:
                yield False, float(a != b)


def _pairs(a: Any, meta_a: Any, b: Any, meta_b: Any) -> Iterator[tuple[Any, Any, Any, Any]]:
    """One value each, or those of the branches that a join gathered."""
    if isinstance(meta_a, list) and isinstance(meta_b, list):
        if len(meta_a) == len(meta_b):
            yield from zip(a, meta_a, b, meta_b, strict=True)
        else:
            yield a, {"branches": len(meta_a)}, b, {}
    else:
        yield a, meta_a, b, meta_b


def distance(before: Sequence[float], after: Sequence[float]) -> float:
    """Total variation distance of the distributions that two lists of scores stand for."""
    return sum(abs(p - q) for p, q in zip(softmax(before), softmax(after), strict=True)) / 2


def softmax(scores: Sequence[float]) -> list[float]:
    """Probabilities in proportion to exp(score)."""
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


@dataclass(frozen=True, slots=True)
class Checks:
    """Which tests a reordered program has to pass.

    Attributes:
        judge: whether the model is asked about each move.
        rows: sample rows for the output test; none: it is left out.
        bound: largest change that it lets pass.
    """

    judge: bool = False
    rows: Sequence[Any] = ()
    bound: float = BOUND


def settle(
    program: CompiledProgram, tests: Checks, backend: Backend, context: Context
) -> tuple[CompiledProgram, list[str]]:
    """The reordered program without the moves that fail a test, and what the tests found.

    The findings go into the artefact's record of the motion. Raises InputError for sample rows of
    which none runs.
    """
    said: list[str] = []
    if NAME not in program.graph.notes:
        return program, said
    if tests.judge:
        program = _without_refused(program, backend, context, said)
    if tests.rows and NAME in program.graph.notes:
        program = _tested(program, tests, backend, said)
    return program, said


def _without_refused(
    program: CompiledProgram, backend: Backend, context: Context, said: list[str]
) -> CompiledProgram:
    moves = program.graph.notes[NAME]["moves"]
    answers = judged(moves, backend)
    refused = {m["before"] for m, is_good in zip(moves, answers, strict=True) if not is_good}
    said.append(f"the judge model takes {sum(answers)} of {len(moves)} moves for harmless")
    if not refused:
        return _with_finding(program, judge="harmless")
    graph, reports = run_passes(
        restore(program.graph), [NAME], replace(context, refused=frozenset(refused))
    )
    kept = [report for report in program.reports if report.name != NAME]
    found = CompiledProgram(graph, program.tools.values(), [*kept, *reports])
    return _with_finding(found, judge="harmless") if NAME in graph.notes else found


def _tested(
    program: CompiledProgram, tests: Checks, backend: Backend, said: list[str]
) -> CompiledProgram:
    written = CompiledProgram(restore(program.graph), program.tools.values(), program.reports)
    test = output_test(written, program, tests.rows, backend)
    is_good = test.change <= tests.bound
    said.append(
        f"the outputs of {test.rows} rows ({test.selects} selects, {test.gens} gens) change by "
        f"{test.change:.3f}, at most {tests.bound:g} is allowed: "
        f"{'the new order' if is_good else 'the order as written'} is kept"
    )
    if not is_good:
        return written
    facts = {"rows": test.rows, "selects": test.selects, "gens": test.gens}
    return _with_finding(program, outputs={**facts, "change": test.change, "bound": tests.bound})


def _with_finding(program: CompiledProgram, **findings: Any) -> CompiledProgram:
    notes = program.graph.notes
    graph = replace(program.graph, notes={**notes, NAME: {**notes[NAME], **findings}})
    return CompiledProgram(graph, program.tools.values(), program.reports)
