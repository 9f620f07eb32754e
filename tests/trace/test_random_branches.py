"""Random programs with control flow: compiled equals interpreted on many paths, or is refused."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import assert_equal_on_paths
from support.random_branches import BranchWriter
from support.random_programs import load_text

import sgc

ROWS = ({"q": "q", "xs": ["a", "yes"]}, {"q": "q", "xs": []})


def check(seed: int, scripts: int) -> str:
    """ "equal" or "refused"; raises AssertionError for a difference."""
    program = load_text(BranchWriter(seed).text())
    try:
        program.compile()
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return "refused"
    assert_equal_on_paths(program, *ROWS, scripts=scripts, failing=7 if seed % 3 == 0 else 0)
    return "equal"


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_equal_or_refused(seed: int) -> None:
    check(seed, scripts=3)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_random_programs_are_equal_and_few_are_refused() -> None:
    counts = Counter(check(seed, scripts=12) for seed in range(5000))
    assert counts["refused"] < 0.12 * counts.total()
