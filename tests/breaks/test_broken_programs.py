"""Programs with one part that is not compiled: the rest is, and all equals the interpreter."""

from __future__ import annotations

import pytest
from support.broken_programs import ROWS
from support.tracer import outcome

import sgc


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.name)
def test_compiled_in_part_equals_interpreted(program: sgc.Program) -> None:
    for row in ROWS[program]:
        live, mixed = (outcome(program, dict(row), mode) for mode in ("interpreted", "auto"))
        if live["error"] is None:
            assert mixed == live
        else:
            assert (mixed["error"], mixed["reason"]) == (live["error"], live["reason"])
            assert set(live["calls"]) <= set(mixed["calls"])


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.name)
def test_most_nodes_run_compiled_around_one_break(program: sgc.Program) -> None:
    outcome(program, dict(ROWS[program][1]), "auto")
    assert program.breaks is not None
    assert program.breaks.share >= 0.8, (program.breaks.compiled, program.breaks.interpreted)
    places = {(found.line, found.reason) for found in program.breaks.breaks()}
    assert len(places) == 1, places


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.name)
def test_mode_compiled_refuses(program: sgc.Program) -> None:
    with pytest.raises(sgc.CompileError) as refused:
        program.run(**ROWS[program][0], mode="compiled")
    assert refused.value.line is not None
