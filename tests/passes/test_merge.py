"""Merging of equal calls: fewer calls, the same variables, result, text and messages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes.replies import reply, select
from support.random_programs import ProgramWriter, load_text

import sgc
from sgc.compile import CompiledProgram, compile_spec
from sgc.testing import ScriptedBackend

BASE = ("fold", "texts")
CALLS: list[str] = []


@sgc.tool(effect="pure")
def size(x: str) -> int:
    CALLS.append(f"size {x}")
    return len(x)


@sgc.tool(effect="repeatable")
def look(x: str) -> int:
    CALLS.append(f"look {x}")
    return len(x)


@sgc.function
def greedy(s, q: str):
    s += q + sgc.gen("a", max_tokens=3, temperature=0)
    s += sgc.select("b", ["x", "y"])
    return s["a"]


@sgc.function
def seeded(s, q: str):
    s += q + sgc.gen("a", max_tokens=3, seed=7)
    return s["a"]


@sgc.function
def sampled(s, q: str):
    s += q + sgc.gen("a", max_tokens=3)
    return s["a"]


@sgc.function
def nested(s, q: str):
    s += greedy(q)["a"]


def run(program: CompiledProgram, **row: Any) -> tuple[Any, int]:
    CALLS.clear()
    backend = ScriptedBackend(reply, select=select)
    (state,) = program.run_batch([row], backend=backend)
    return state, len(backend.calls) + len(CALLS)


def saved(program: sgc.Program, **row: Any) -> int:
    """Calls that merging saves; everything else is the same."""
    before, many = run(compile_spec(program.spec, BASE), **row)
    after, few = run(compile_spec(program.spec, [*BASE, "merge"]), **row)
    assert (repr(after.error()), after.value) == (repr(before.error()), before.value)
    assert (after.vars, after.text(), after.messages()) == (
        (before.vars, before.text(), before.messages())
    )
    return many - few


@pytest.mark.parametrize(
    ("program", "calls"), [(greedy, 2), (seeded, 1), (sampled, 0), (nested, 2)], ids=str
)
def test_equal_sub_programs_run_once_where_nothing_is_sampled(program: Any, calls: int) -> None:
    @sgc.function
    def twice(s, q: str):
        first, again = program(q + "!"), program(q + "!")
        other = program("other")
        s += first.text() + again.text() + other.text()
        return [first.value, again.value, other.value]

    assert saved(twice, q="Q") == calls


def test_equal_pure_tools_run_once_others_never() -> None:
    @sgc.function
    def tools(s, q: str):
        a = [sgc.call(size, q), sgc.call(size, q), sgc.call(size, q + "x")]
        b = [sgc.call(look, q), sgc.call(look, q)]
        s += sgc.gen("v", max_tokens=a[1])
        return a + b

    assert saved(tools, q="QQ") == 1
    assert sorted(CALLS) == ["look QQ", "look QQ", "size QQ", "size QQx"]


@pytest.mark.parametrize(
    ("temperature", "mode", "read", "calls"),
    [
        (0, "gather", "v", 2),
        (0, "none", "v", 2),
        (0, "append", "v", 0),  # the text has all of them
        (None, "gather", "v", 0),  # the run decides
        (0.5, "gather", "v", 0),
    ],
)
def test_equal_branches_run_once(temperature: Any, mode: str, read: str, calls: int) -> None:
    set_ones = {} if temperature is None else {"temperature": temperature}

    @sgc.function
    def branches(s, q: str):
        forks = s.fork(4)
        for i, f in enumerate(forks):
            f += sgc.user(q if i != 2 else "other")
            f += sgc.assistant(sgc.gen("v", max_tokens=3, **set_ones))
        if mode != "none":
            forks.join(mode)
        s += "".join(f[read] for f in forks)
        return [f.text() for f in forks]

    assert saved(branches, q="Q") == calls


def test_branches_that_append_in_different_arms_are_not_alike() -> None:
    @sgc.function
    def arms(s, q: str):
        s += sgc.select("w", ["yes", "no"])
        forks = s.fork(2)
        forks[0] += "x"
        if s["w"] == "yes":
            forks[1] += "x"
        for f in forks:
            f += sgc.gen("v", max_tokens=3, temperature=0)
        return [f["v"] for f in forks]

    assert {saved(arms, q=q) for q in "abcdefgh"} == {0}


def test_what_was_merged_is_listed() -> None:
    @sgc.function
    def twice(s, q: str):
        return [greedy(q).value, greedy(q).value]

    report = compile_spec(twice.spec, ["merge"]).reports[0]
    assert [(c.node, c.text) for c in report.changes] == [("c1", "greedy is that of c0")]


def test_a_call_in_one_arm_is_not_taken_for_one_outside() -> None:
    @sgc.function
    def arms(s, q: str):
        s += sgc.select("w", ["yes", "no"])
        if s["w"] == "yes":
            s += greedy(q)["a"]
        s += greedy(q)["a"]

    assert {saved(arms, q=q) for q in "abcdefgh"} == {0}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs_keep_their_results(seed: int) -> None:
    text = ProgramWriter(seed).text().replace("max_tokens=", "temperature=0, max_tokens=")
    program = load_text(text)
    try:
        compile_spec(program.spec)
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return
    saved(program, q="hey", n=2, xs=["a", "a"], ys=["u", "v", "w"])
