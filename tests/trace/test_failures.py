"""`try` around generated values: compiled equals interpreted, whichever calls fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.paths import assert_equal_on_paths
from support.random_attempts import AttemptWriter
from support.random_programs import load_text

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.codec import decode, encode
from sgc_ir.text import parse_program, print_program

ROWS = ({"q": "q", "xs": ["a", "yes"]}, {"q": "q", "xs": []})
PROGRAMS: list[Callable[..., Any]] = []


def case(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


@sgc.tool(effect="repeatable")
def brittle(text: str) -> str:
    if text.startswith("y"):
        raise ValueError(f"no {text}")
    return text.upper()


@sgc.function
def two_branches(s, t):
    f = s.fork(2)
    f[0] += t + sgc.gen("u")
    f[1] += t + "1" + sgc.gen("v")
    x = f[0]["u"]
    f[1] += x + sgc.gen("w")  # not called where u failed
    s += x + f[1]["w"] + sgc.gen("z")
    return s["z"]


@case
def asks_what_it_was(s):
    s += "x" + sgc.gen("a")
    try:
        n = int(s["a"])
    except Exception as e:
        n = type(e).__name__
        if isinstance(e, (KeyError, ValueError)):
            s += "no number"
    s += sgc.gen("b")
    return n


@case
def goes_on_behind_a_failed_gen(s):
    s += "x" + sgc.gen("a", max_tokens=2)
    s += " skipped with it"
    try:
        v = s["a"]
        s += "ok" + sgc.gen("b")
    except sgc.GenerationError:
        v = "none"
        s += "bad"
    s += v + sgc.gen("c")
    return v


@case
def looks_at_the_error(s):
    s += "x" + sgc.gen("a")
    try:
        return s["a"]
    except sgc.GenerationError as e:
        return f"{e}|{e.node}|{e.source}|{e.program}|{e.instance}|{e.reason}|{e!r}"


@case
def retries_until_it_works(s):
    for i in range(3):
        s += f"try {i}" + sgc.gen("a", max_tokens=2)
        try:
            if s["a"] == "yes":
                return "got " + s["a"]
        except sgc.GenerationError as e:
            s += "[" + str(e) + "]"
            continue
        s += "no"
    else:
        return "never"


@case
def kinds_and_finally(s):
    s += "x" + sgc.gen("a", max_tokens=2)
    try:
        n = int(s["a"])
    except ValueError as e:
        n = -1
        s += "value" + str(e)
    except sgc.GenerationError:
        n = -2
    else:
        s += "number" + sgc.gen("e")
    finally:
        s += "fin" + sgc.gen("f")
    s += str(n) + sgc.gen("b")
    return n


@case
def nested_and_raised_again(s):
    s += "x" + sgc.gen("a")
    out = []
    try:
        try:
            out.append(s["a"])
        except sgc.GenerationError:
            s += "inner" + sgc.gen("i")
            out.append("i")
            if s["i"] == "yes":
                raise
            out.append(s["i"])
    except sgc.GenerationError as e:
        out.append(str(e))
    s += "end" + sgc.gen("z")
    return out


@case
def raised_again_without_a_taker(s):
    s += "x" + sgc.gen("a")
    try:
        s["a"]
    except sgc.GenerationError:
        s += "log" + sgc.gen("b")
        raise


@case
def read_again_outside(s):
    s += "x" + sgc.gen("a")
    try:
        s["a"]
    except sgc.GenerationError:
        s += "taken"
    s += "y" + sgc.gen("b")
    s["a"]  # fails the row, though nothing needs it
    return "done"


@case
def program_in_a_try(s):
    h, other = two_branches("p"), two_branches("q")
    try:
        a = h.value
        b = other["z"]
    except sgc.GenerationError:
        a = b = "failed"
    s += a + b + sgc.gen("e")
    return a


@case
def each_branch_by_itself(s):
    forks = s.fork(3)
    out = []
    for i, f in enumerate(forks):
        f += str(i) + sgc.gen("a", max_tokens=3)
    for f in forks:
        try:
            out.append(f["a"])
        except sgc.GenerationError:
            out.append("-")
            f += "sorry" + sgc.gen("r")
    s += ",".join(out) + sgc.gen("e")
    return out


@case
def run_time_branches(s):
    s += "list" + sgc.gen("n", max_tokens=1)
    forks = s.fork_each([s["n"], "b"])
    for f in forks:
        f += f.item + sgc.gen("a")
        try:
            f += f["a"] + "."
        except sgc.GenerationError:
            f += "sorry"
        f += sgc.gen("z")
    return [f["z"] for f in forks]


@case
def list_of_run_time_branches(s):
    s += "list" + sgc.gen("n", max_tokens=1)
    forks = s.fork_each(["a", "b", "c"] if len(s["n"]) > 1 else ["a"])
    for f in forks:
        f += f.item + sgc.gen("a", max_tokens=1)
    try:
        found = [f["a"] + "." for f in forks if f["a"] != "no"]
        s += ",".join(found)
    except sgc.GenerationError as e:
        found = []
        s += str(e)
    s += sgc.gen("b")
    return found


@sgc.function
def joined(s, xs):
    forks = s.fork_each(xs)
    for f in forks:
        f += f.item + sgc.gen("a", max_tokens=1)
    s += ",".join(f["a"] for f in forks) + sgc.gen("z")  # not called where one has failed
    return s["z"]


@case
def program_with_a_loop_in_a_try(s):
    s += "list" + sgc.gen("n", max_tokens=1)
    xs = ["a", "b", "c"] if len(s["n"]) > 1 else ["a"]
    try:
        return joined(xs).value
    except sgc.GenerationError:
        s += sgc.gen("b")
        return "failed"


@case
def tool_that_raises(s):
    s += "x" + sgc.gen("a")
    try:
        t = sgc.call(brittle, s["a"])
    except sgc.GenerationError as e:
        t = str(e)
    s += t + sgc.gen("b")
    return t


@case
def inside_a_turn(s):
    try:
        with s.user():
            s += "hello" + sgc.gen("a")
            if s["a"] == "yes":
                return "early"
    except sgc.GenerationError:
        s += sgc.user("again")
    s += sgc.assistant(sgc.gen("b"))
    return s["b"]


@case
def raised_by_the_program(s):
    s += "x" + sgc.gen("a")
    try:
        if s["a"] == "yes":
            raise ValueError("said yes")
        if s["a"] == "no":
            raise KeyError("said no")
    except (ValueError, LookupError):
        s += "one of two" + sgc.gen("b")
    return s["a"]


@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
@pytest.mark.parametrize("failing", [0, 2, 3])
def test_equal_whichever_calls_fail(fn: Callable[..., Any], failing: int) -> None:
    seen = assert_equal_on_paths(sgc.function(fn), scripts=30, failing=failing)
    assert len(seen) > 1 or not failing, "one path only"


@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
def test_both_written_forms_keep_it(fn: Callable[..., Any]) -> None:
    program = sgc.function(fn).compile().graph
    assert decode(encode(program)) == program
    assert parse_program(print_program(program)) == program


def test_an_error_that_was_taken_is_none_of_the_row() -> None:
    def fail(prompt: str) -> Exception | None:
        return RuntimeError("told to") if prompt == "x" else None

    program = sgc.function(goes_on_behind_a_failed_gen)
    for mode in ("interpreted", "compiled"):
        backend = ScriptedBackend(lambda prompt, params: "w", fail=fail)
        state = program.run(backend=backend, mode=mode)
        assert (state.value, state.text()) == ("none", "xbadnonew")
        assert [call["node"] for call in backend.calls] == ["g0", "g1"]
        with pytest.raises(sgc.GenerationError, match="told to"):
            state["a"]


def test_a_read_outside_of_the_try_fails_the_row_with_the_same_error() -> None:
    def fail(prompt: str) -> Exception | None:
        return RuntimeError("told to") if prompt == "x" else None

    program = sgc.function(read_again_outside)
    backend = ScriptedBackend(lambda prompt, params: "w", fail=fail)
    with pytest.raises(sgc.GenerationError, match=r"node g0.*told to"):
        program.run(backend=backend, mode="compiled")


def raised_from_another(s):
    s += "x" + sgc.gen("a")
    try:
        return int(s["a"])
    except ValueError as e:
        raise KeyError("no number") from e


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_an_error_keeps_the_one_it_was_raised_from(mode: str) -> None:
    backend = ScriptedBackend(lambda prompt, params: "w")
    (state,) = sgc.function(raised_from_another).run_batch([{}], backend=backend, mode=mode)
    assert isinstance(state.error(), KeyError)
    assert isinstance(state.error().__cause__, ValueError)


def check(seed: int, scripts: int) -> str:
    """ "equal" or "refused"; raises AssertionError for a difference."""
    program = load_text(AttemptWriter(seed).text())
    try:
        program.compile()
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return "refused"
    for failing in (0, 2, 3):
        assert_equal_on_paths(program, *ROWS, scripts=scripts, failing=failing)
    return "equal"


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32))
def test_random_program_is_equal_or_refused(seed: int) -> None:
    check(seed, scripts=2)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_many_random_programs_are_equal_and_few_are_refused() -> None:
    counts = Counter(check(seed, scripts=5) for seed in range(2000))
    assert counts["refused"] < 0.3 * counts.total()
