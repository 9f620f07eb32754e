"""Graphs with a `First`: the law refuses wrong ones, and what only a run can see fails its row."""

from __future__ import annotations

import pytest
from support.executor import run_graph

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import ArtifactError
from sgc_ir.text import parse_program
from sgc_ir.verify import verify

HEAD = "program main\ngraph main(n: int, x: str) {\n"
PARTS = """
  %0 = Argument name="n"
  %1 = Argument name="x"
  %2 = SubProgram callee="sub" args={} ordinal=0
  %3 = SubProgram callee="sub" args={} ordinal=1
  %4 = Fork ordinal=0 width=2
  %5 = GetForkItem fork=%4 index=0
  %6 = GetForkItem fork=%4 index=1
  %7 = Gen in %5 name="a" ordinal=0
  %8 = Gen in %6 name="a" ordinal=0
  %9 = Fork ordinal=1 width=%0
"""
SUB = '\ngraph sub() {\n  %0 = Gen name="v" ordinal=0\n  %1 = Return value=%0 vars={"v": %0}\n}\n'
BRANCHES = 'among=(%5, %6) results=({"a": %7}, {"a": %8})'


def text(first: str, rest: str = "  %11 = Return value=%10 vars={}") -> str:
    return f"{HEAD}{PARTS}  %10 = First {first}\n{rest}\n}}\n{SUB}"


@pytest.mark.parametrize(
    "first", ["count=1 ordinal=0 among=(%2, %3)", f"count=%0 ordinal=0 {BRANCHES}"]
)
def test_right_ones(first: str) -> None:
    verify(parse_program(text(first)))


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("count=1 ordinal=0", "one of both"),
        ("count=1 ordinal=0 among=(%2,) fork=%9", "one of both"),
        ("count=0 ordinal=0 among=(%2, %3)", "must be 1 at least"),
        ("count=1 ordinal=0 fork=%4", "constant width"),
        ("count=1 ordinal=0 fork=%2", "not a Fork"),
        ("count=1 ordinal=0 fork=%9 results=()", "has results"),
        ("count=1 ordinal=0 among=%2 results=()", "has results"),
        ("count=1 ordinal=0 among=(%5, %6)", "no results of branch"),
        ('count=1 ordinal=0 among=(%5, %6) results=({"a": %7},)', "each of 2 branches"),
        ("count=1 ordinal=0 among=(%2, %3) results=({}, {})", "some of a sub-program"),
        ('count="1" ordinal=0 among=(%2, %3)', "attribute count"),
        ("count=1 ordinal=0 among=(1, %3)", "attribute among"),
    ],
)
def test_wrong_ones_are_refused(first: str, words: str) -> None:
    with pytest.raises(ArtifactError, match=words):
        parse_program(text(first))


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("count=1 ordinal=2 among=(%0, %3)", "neither a branch nor a sub-program"),
        ("count=1 ordinal=2 among=%0", "no list of sub-programs"),
        ("count=%0 ordinal=2 among=(%2, %3)", r"first\(3\) of 2 branches"),
        ("count=%1 ordinal=2 among=(%2, %3)", r"first\('3'\)"),
    ],
)
def test_what_a_run_sees_fails_its_row(first: str, words: str) -> None:
    backend = ScriptedBackend(lambda prompt, _: "x", delay=lambda _: 0.01)
    state = run_graph(parse_program(text(first)), backend, {"n": 3, "x": "3"})
    assert isinstance(state.error(), sgc.GenerationError)
    with pytest.raises(sgc.GenerationError, match=words):
        raise state.error()
