"""Random programs: compiled and interpreted make the same calls and give the same result."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_programs import ProgramWriter, load_text
from support.tracer import assert_equal

import sgc

ROWS = (
    {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]},
    {"q": "", "n": 1, "xs": [], "ys": ["z"]},
    {"q": "yes", "n": 3, "xs": ["one two"], "ys": []},
    {"q": "FAIL", "n": 2, "xs": ["a", "b"], "ys": ["u"]},  # calls with this word in it fail
    {"q": "a", "n": 0, "xs": ["FAIL x"], "ys": ["9"]},
)


def check(seed: int) -> str:
    """ "equal" or "refused"; raises AssertionError for a difference."""
    program = load_text(ProgramWriter(seed).text())
    try:
        program.compile()
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return "refused"
    assert_equal(program, *ROWS)
    return "equal"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_equal_or_refused(seed: int) -> None:
    check(seed)


@pytest.mark.long
def test_many_random_programs_are_equal_and_few_are_refused() -> None:
    counts = Counter(check(seed) for seed in range(2000))
    assert counts["refused"] < 0.12 * counts.total()
