"""Random programs with calls that are not compiled, in compiled parts: equal to the interpreter."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.odd_calls import with_odd_calls
from support.paths import Script
from support.paths import outcome as on_path
from support.random_branches import BranchWriter
from support.random_programs import ProgramWriter, load_text
from support.tracer import outcome

import sgc

ROWS = (
    {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
    {"q": "yes", "n": 3, "xs": ["one two"], "ys": []},
    {"q": "FAIL", "n": 2, "xs": ["a", "b"], "ys": ["u"]},  # calls with this word in it fail
)
BRANCH_ROWS = ({"q": "q", "xs": ["a", "yes"]}, {"q": "q", "xs": []})


def compare(live: dict[str, object], mixed: dict[str, object], where: object) -> None:
    if live["error"] is None:
        assert mixed == live, where
    else:
        assert mixed["error"] == live["error"], where
        assert mixed.get("reason") == live.get("reason"), where


def is_split(program: sgc.Program) -> bool:
    try:
        program.compile()
    except sgc.CompileError:
        return True
    return False


def check(seed: int, share: float) -> str:
    program = load_text(with_odd_calls(ProgramWriter(seed).text(), seed, share))
    if not is_split(program):
        return "compiled"
    for row in ROWS:
        live, mixed = (outcome(program, dict(row), mode) for mode in ("interpreted", "auto"))
        compare(live, mixed, (seed, row))
        if live["error"] is not None:
            assert set(live["calls"]) <= set(mixed["calls"])
    return "mixed"


def check_branches(seed: int, share: float, scripts: int) -> str:
    program = load_text(with_odd_calls(BranchWriter(seed).text(), seed, share))
    if not is_split(program):
        return "compiled"
    for row in BRANCH_ROWS:
        for number in range(scripts):
            script = Script(number, failing=7 if seed % 3 == 0 else 0)
            live = on_path(program, dict(row), "interpreted", script)
            compare(live, on_path(program, dict(row), "auto", script), (seed, row, number))
    return "mixed"


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_with_odd_calls_is_equal(seed: int) -> None:
    check(seed, 0.2)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_branches_with_odd_calls_are_equal(seed: int) -> None:
    check_branches(seed, 0.2, scripts=2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_random_programs_with_odd_calls_are_equal() -> None:
    counts = Counter(check(seed, 0.1 + seed % 3 / 10) for seed in range(1500))
    counts += Counter(check_branches(seed, 0.1 + seed % 3 / 10, 4) for seed in range(1500))
    assert counts["mixed"] > 0.5 * counts.total()
