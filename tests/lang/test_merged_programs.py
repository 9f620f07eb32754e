"""Random programs over rows that repeat: merged calls and plans change nothing but their number."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_branches import BranchWriter
from support.random_programs import ProgramWriter, load_text
from support.tracer import fail, pick, reply, scores

import sgc
from sgc.testing import ScriptedBackend

ROWS = [
    {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
    {"q": "", "n": 1, "xs": [], "ys": ["z"]},
    {"q": "FAIL", "n": 2, "xs": ["a", "b"], "ys": ["u"]},  # calls with this word in it fail
] * 3
BRANCH_ROWS = [{"q": q, "xs": ["a", "yes"]} for q in ("yes", "no", "yes", "yes", "no")]


def chosen(prompt: str, params: Any) -> str:
    return ("yes", "no", "a", "b", "7", "yes no")[pick(prompt) % 6]


def outcomes(
    program: sgc.Program, rows: list[dict[str, Any]], answer: Any, **options: Any
) -> tuple[list[Any], list[Any]]:
    """What each row gives, and the calls that were made."""
    backend = ScriptedBackend(answer, select=scores, fail=fail)
    backend.keeps_prefixes = True
    states = program.run_batch(rows, backend=backend, temperature=0.0, **options)
    found = []
    for state in states:
        error = state.error()
        if error is not None:
            found.append((type(error).__name__, str(error)))
        else:
            said = state.text(), repr(state.messages())
            found.append((repr(state.vars), repr(state.value), *said, state.usage))
    return found, backend.calls


def check(program: sgc.Program, rows: list[dict[str, Any]], answer: Any, mode: str) -> None:
    plain, calls = outcomes(program, rows, answer, mode=mode, plan=False)
    merged, fewer = outcomes(program, rows, answer, mode=mode, merge=True)
    assert merged == plain
    assert len(fewer) <= len(calls)
    good = [call for call in fewer if call["result"] is not None]
    asked = [(c["prompt"], repr(sorted(c["params"].items(), key=str))) for c in good]
    roles = [call for call in good if "<|im" in call["prompt"]]  # texts that look alike may differ
    if not roles:
        assert len(set(asked)) == len(asked), "an equal call was made twice"


def load(text: str) -> sgc.Program | None:
    program = load_text(text)
    try:
        program.compile()
    except sgc.CompileError:
        return None
    return program


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs_give_the_same(mode: str, seed: int) -> None:
    program = load(ProgramWriter(seed).text())
    if program is not None:
        check(program, ROWS, reply, mode)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_control_flow_gives_the_same(seed: int) -> None:
    program = load(BranchWriter(seed).text())
    if program is not None:
        check(program, BRANCH_ROWS, chosen, "compiled")


@pytest.mark.long
def test_many_random_programs_give_the_same() -> None:
    for seed in range(800):
        for text, rows, answer in (
            (ProgramWriter(seed).text(), ROWS, reply),
            (BranchWriter(seed).text(), BRANCH_ROWS, chosen),
        ):
            program = load(text)
            if program is not None:
                check(program, rows, answer, "compiled")
