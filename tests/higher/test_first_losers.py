"""What becomes of those that `sgc.first` has not chosen."""

from __future__ import annotations

import time

import pytest
from support.races import MODES, SLOW_S, ask, assert_equal, backend

import sgc


@sgc.function
def reads_a_loser(s):
    runs = [ask("quick"), ask("SLOW")]
    s += str(sgc.first(1, runs)) + runs[1]["answer"]


@sgc.function
def reads_a_failed_one(s):
    runs = [ask("quick"), ask("FAIL")]
    s += str(sgc.first(1, runs)) + sgc.gen("last", max_tokens=4)
    s.set("other", runs[1]["answer"])


@sgc.function
def reads_a_lost_branch(s):
    forks = s.fork(2)
    forks += lambda i: ["quick", "SLOW"][i] + sgc.gen("x", max_tokens=4)
    found = sgc.first(1, forks)
    s.set("other", forks[1]["x"])
    return found


@MODES
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (reads_a_failed_one, "told to fail|others were first"),
        (reads_a_lost_branch, "others were first"),
    ],
)
def test_reading_what_was_not_chosen_fails(program: sgc.Program, reason: str, mode: str) -> None:
    with pytest.raises(sgc.GenerationError, match=reason):
        program.run(backend=backend(), mode=mode)


@sgc.tool(effect="pure")
def slow_tool(what: str) -> str:
    time.sleep(SLOW_S if what == "SLOW" else 0)
    return what


@sgc.function
def uses_a_tool(s, what: str):
    try:
        s += sgc.call(slow_tool, what) + sgc.gen("x", max_tokens=4)
    except sgc.GenerationError:
        s += "no tool" + sgc.gen("x", max_tokens=4)
    return s["x"]


@sgc.function
def races_tools(s):
    runs = [uses_a_tool("SLOW"), uses_a_tool("quick")]
    s += sgc.first(1, runs)[0] + sgc.gen("last", max_tokens=4)


@sgc.function
def reads_a_lost_tool(s):
    runs = [uses_a_tool("SLOW"), uses_a_tool("quick")]
    s += sgc.first(1, runs)[0] + sgc.gen("last", max_tokens=4)
    return runs[0]["x"]


def test_a_row_does_not_wait_for_the_tools_of_losers() -> None:
    assert_equal(races_tools)
    assert "others were first" in assert_equal(reads_a_lost_tool)["error"][1]


@sgc.function
def takes_failures(s, a: str, b: str):
    try:
        found = sgc.first(1, [ask(a), ask(b)])[0]["answer"]
    except sgc.GenerationError:
        found = "none"
    s += found + sgc.gen("last", max_tokens=4)
    return found


@pytest.mark.parametrize(("a", "b"), [("a", "SLOW b"), ("FAIL a", "b"), ("FAIL a", "FAIL b")])
def test_a_program_may_take_that_too_few_finished(a: str, b: str) -> None:
    assert assert_equal(takes_failures, a=a, b=b)["error"] is None


@sgc.function
def takes_it(s):
    runs = [ask("quick"), ask("SLOW")]
    found = sgc.first(1, runs)
    try:
        s += runs[1]["answer"]
    except sgc.GenerationError:
        s += "too slow"
    return found


@MODES
def test_reading_a_loser_names_the_race(mode: str) -> None:
    line = reads_a_loser.spec.first_line + 3
    with pytest.raises(sgc.GenerationError, match="others were first") as caught:
        reads_a_loser.run(backend=backend(), mode=mode)
    assert f"sgc.first at tests/higher/test_first_losers.py:{line}" in str(caught.value)
    assert caught.value.node == "c1"


def test_a_program_may_take_that() -> None:
    assert assert_equal(takes_it)["text"] == "too slow"
