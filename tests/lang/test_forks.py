"""Branches: prompts, variables, joins and what is refused."""

from __future__ import annotations

import pytest

import sgc
from sgc.lang.source import shown_file


def test_branches_go_on_from_the_parent(interpret, prompts):
    def program(s):
        s += "p" + sgc.gen("before")
        forks = s.fork(2)
        s += " later"
        for i, f in enumerate(forks):
            f += f" b{i}" + sgc.gen("v")
        s += sgc.gen("own")
        return len(forks), [f["v"] for f in forks], forks[-1]["before"]

    state = interpret(program)
    assert state.value == (2, [" 3", " 3"], " 1")
    assert prompts() == {
        "g0": "p",
        "f0[0]/g0": "p 1 b0",
        "f0[1]/g0": "p 1 b1",
        "g1": "p 1 later",
    }
    assert state.vars == {"before": " 1", "own": " 3"}


def test_group_append_forms(interpret, prompts):
    def program(s):
        forks = s.fork(3)
        forks += "same "
        forks += lambda i: f"f{i} "
        forks += ["x", "y" + sgc.gen("extra"), "z"]
        forks += sgc.gen("v")
        forks[0] += "tail"
        return [f.text() for f in forks]

    state = interpret(program)
    assert prompts()["f0[0]/g0"] == "same f0 x"
    assert prompts()["f0[1]/g1"] == "same f1 y 3"
    assert state.value == ["same f0 x 3tail", "same f1 y 3 4", "same f2 z 3"]


def test_zip_enumerate_unpacking_and_nesting(interpret):
    def program(s, items):
        a, b = s.fork(2)
        for (i, f), item in zip(enumerate((a, b)), items, strict=True):
            inner = f.fork_each([item, item.upper()])
            for g in inner:
                g += f"{i}{g.item}" + sgc.gen("v")
            inner.join()
        return a["v"], b["v"]

    assert interpret(program, items=["x", "y"]).value == ([" 1", " 1"], [" 1", " 1"])


@pytest.mark.parametrize("items", [[], ["only"], list("abcdefg")])
def test_fork_each(interpret, items):
    def program(s, items):
        s += "p "
        forks = s.fork_each(items)
        for f in forks:
            f += f.item + sgc.gen("v")
        forks.join()
        return [f.item for f in forks], s.get("v")

    value = interpret(program, items).value
    assert value == (items, [" 2"] * len(items) or None)


def test_gather_takes_what_the_parent_lacked_at_the_fork(interpret):
    def program(s):
        s.set("mine", "kept")
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f.set("mine", i)
            f.set("new", i)
            f += sgc.gen()
        forks.join()
        return s["mine"], s["new"], "_1" in s, forks[1]["mine"], forks[1].text()

    assert interpret(program).value == ("kept", [0, 1], False, 1, " 0")


def test_join_append_adds_texts_and_no_variables(interpret, prompts):
    def program(s):
        s += "p"
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += f"[{i}]" + sgc.gen("v")
        forks.join("append")
        s += "end" + sgc.gen("w")
        return "v" in s, forks[0]["v"]

    state = interpret(program)
    assert prompts()["g0"] == "p[0] 1[1] 1end"
    assert state.value == (False, " 1")


def test_join_append_keeps_role_turns(interpret):
    def program(s):
        s += sgc.user("q")
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += sgc.assistant(f"a{i}")
            f += sgc.user(f"u{i}")
        forks.join("append")
        return s.messages()

    roles = [(m["role"], m["content"]) for m in interpret(program).value]
    assert roles == [("user", "q"), ("assistant", "a0"), ("user", "u0"), ("assistant", "a1"),
                     ("user", "u1")]  # fmt: skip


def test_gather_names_the_branch_that_lacks_a_variable(interpret):
    def program(s):
        forks = s.fork(3)
        forks[0] += sgc.gen("v")
        forks[2] += sgc.gen("v")
        forks.join()

    error = interpret(program).error()
    assert isinstance(error, sgc.GenerationError)
    assert "'v'" in str(error)
    assert "f0[1]" in str(error)


@pytest.mark.parametrize("width", [0, -2, 1.5, "2", True])
def test_a_bad_width_fails_the_row(interpret, width):
    def program(s, width):
        s.fork(width)

    error = interpret(program, width).error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "f0"
    assert error.source.startswith(shown_file(__file__))


def test_what_a_joined_branch_and_its_parent_may_do(interpret):
    def late_append(s):
        forks = s.fork(1)
        forks.join()
        forks[0] += "late"

    def late_gen_through_the_group(s):
        forks = s.fork(1)
        forks.join("append")
        forks += sgc.gen("v")

    def twice(s):
        forks = s.fork(1)
        forks.join()
        forks.join()

    def mode(s):
        s.fork(1).join("zip")

    def replaced(s):
        forks = s.fork(2)
        forks[0] = forks[1]

    def wrong_length(s):
        forks = s.fork(2)
        forks += ["one"]

    for program in (late_append, late_gen_through_the_group, twice, mode, replaced, wrong_length):
        error = interpret(program).error()
        assert isinstance(error, sgc.CompileError), program
        assert error.file == shown_file(__file__)
        assert "\n" not in str(error)


def test_copy_is_a_branch_that_stays_readable(interpret, prompts):
    def program(s):
        s += "p"
        s.fork(1)
        with s.copy() as t:
            t += " aside" + sgc.gen("side")
        s += " own" + sgc.gen("v")
        return t["side"], t.text(), "side" in s

    state = interpret(program)
    assert state.value == (" 2", "p aside 2", False)
    assert prompts() == {"f1[0]/g0": "p aside", "g0": "p own"}


def test_what_a_plus_would_drop_is_refused(interpret, backend):
    def without_with(s):
        t = s.copy()
        t += sgc.gen("v")

    def turn_without_with(s):
        t = s.user()
        t += "text" + sgc.gen("v")

    def appended(s):
        s += s.copy()

    def no_append(s):
        s = s + sgc.gen("v")

    def no_append_to_branches(s):
        forks = s.fork(2)
        forks = forks + sgc.gen("v")

    for program in (without_with, turn_without_with, appended, no_append, no_append_to_branches):
        error = interpret(program).error()
        assert isinstance(error, sgc.CompileError), program
        assert error.file == shown_file(__file__)
        assert ("with s.copy() as t" in str(error)) or ("write `s += x`" in str(error))
        with pytest.raises(sgc.CompileError):
            sgc.function(program).compile()
    assert not backend.calls


def test_sets_stay_in_their_stream(interpret):
    def program(s):
        s.set("x", "before")
        a, b = s.fork(2)
        s.set("x", "after")
        a.set("x", "a")
        a.set("y", "only a")
        return a["x"], b["x"], s["x"], "y" in b, "y" in s

    assert interpret(program).value == ("a", "before", "after", False, False)


def test_a_pending_variable_of_the_parent_is_waited_for_only_when_read(backend, interpret):
    backend.delay = lambda prompt: 0.2 if prompt == "slow" else 0.0

    def program(s):
        s += "slow" + sgc.gen("v")
        with s.copy() as t:
            t += "x"
        return t["v"]

    assert interpret(program).value == " 1"


def test_item_only_in_branches_of_fork_each(interpret):
    def program(s):
        return s.fork(1)[0].item

    error = interpret(program).error()
    assert isinstance(error, sgc.CompileError)
    assert "this is no branch of fork_each" in str(error)
