"""Failures: who fails, what goes on, which error the row gets."""

from __future__ import annotations

import pytest

import sgc
from sgc.lang.source import shown_file


def boom(s):
    s += "FAIL" + sgc.gen("v")


def test_a_failed_node_is_named_and_its_sibling_finishes(interpret, backend):
    def program(s):
        a, b = s.fork(2)
        a += "FAIL" + sgc.gen("v")
        b += "fine" + sgc.gen("v")
        s.set("b", b["v"])
        return a["v"]

    state = interpret(program)
    error = state.error()
    assert isinstance(error, sgc.GenerationError)
    assert (error.program, error.instance, error.node) == ("program", 0, "f0[0]/g0")
    assert isinstance(error.__cause__, RuntimeError)
    assert str(error.__cause__) == "told to fail"
    lines = open(__file__).read().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if 'a += "FAIL"' in line)
    assert error.source == f"{shown_file(__file__)}:{number}"
    assert state.vars == {"b": " 1"}


def test_run_raises_and_run_batch_returns(backend):
    program = sgc.function(boom)
    with pytest.raises(sgc.GenerationError) as caught:
        program.run(backend=backend, mode="interpreted")
    assert caught.value.node == "g0"
    (state,) = program.run_batch([{}], backend=backend, mode="interpreted")
    assert isinstance(state.error(), sgc.GenerationError)


def test_an_unread_failed_branch_fails_the_row(interpret):
    def program(s):
        s.fork(1)[0].extend("FAIL" + sgc.gen("v"))
        s += "goes on" + sgc.gen("w")
        return s["w"]

    state = interpret(program)
    assert isinstance(state.error(), sgc.GenerationError)
    assert state.value is None
    assert state["w"] == " 2"


def test_an_except_takes_the_error_and_the_stream_goes_on(interpret, prompts):
    def program(s):
        s += "FAIL" + sgc.gen("v")
        s += " queued behind the failure"
        try:
            s["v"]
        except sgc.GenerationError as error:
            s += " taken: " + error.node
        s += sgc.gen("w")
        return s["w"]

    state = interpret(program)
    assert state.error() is None
    assert state.value == " 3"
    assert prompts()["g1"] == "FAIL taken: g0"


def test_an_except_that_ends_the_body_takes_the_error_too(interpret):
    def program(s):
        s += "FAIL" + sgc.gen("v")
        try:
            s["v"]
        except sgc.GenerationError:
            return "recovered"

    state = interpret(program)
    assert state.error() is None
    assert state.value == "recovered"


def test_an_error_of_a_sub_program_can_be_taken(interpret):
    program_of_boom = sgc.function(boom)

    @sgc.function
    def raises(s):
        raise KeyError("own")

    def program(s):
        found = []
        for h in (program_of_boom(), raises()):
            try:
                found.append(h["v"])
            except (sgc.GenerationError, KeyError) as error:
                found.append(type(error).__name__)
        s += "on" + sgc.gen("w")
        return found, s["w"]

    state = interpret(program)
    assert state.error() is None
    assert state.value == (["GenerationError", "KeyError"], " 1")


def test_taking_one_error_leaves_the_others(interpret):
    def program(s):
        a, b = s.fork(2)
        a += "FAIL" + sgc.gen("v")
        b += "FAIL" + sgc.gen("v")
        try:
            a["v"]
        except sgc.GenerationError:
            s += "taken"

    error = interpret(program).error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "f0[1]/g0"


def test_the_first_error_in_program_order_wins(backend, interpret):
    backend.delay = lambda prompt: 0.1 if "slow" in prompt else 0.0

    def program(s):
        a, b = s.fork(2)
        a += "slow FAIL" + sgc.gen("v")
        b += "FAIL" + sgc.gen("v")
        return b["v"]

    assert interpret(program).error().node == "f0[0]/g0"


def test_exceptions_of_the_body_keep_their_type(interpret):
    def value_error(s):
        s += "x" + sgc.gen("v")
        int("seven")

    def from_handler(s):
        s += "FAIL" + sgc.gen("v")
        try:
            s["v"]
        except sgc.GenerationError as error:
            raise LookupError("other") from error

    def in_sub(s):
        return sgc.function(value_error)().value

    assert type(interpret(value_error).error()) is ValueError
    assert type(interpret(from_handler).error()) is LookupError
    assert type(interpret(in_sub).error()) is ValueError


def test_exceptions_of_the_body_say_where_they_were_raised(interpret):
    def helper(text):
        return int(text)

    @sgc.function
    def inner(s):
        helper("seven")

    def program(s):
        inner()

    error = interpret(program).error()
    lines = open(__file__).read().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if "return int(text)" in line)
    assert type(error) is ValueError
    assert error.source == f"{shown_file(__file__)}:{number}"
    assert (error.program, error.instance, error.node) == ("inner", 0, "c0")


def test_a_failure_before_the_bodys_exception_comes_first(interpret):
    def program(s):
        s.fork(1)[0].extend("FAIL" + sgc.gen("v"))
        raise KeyError("later")

    error = interpret(program).error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "f0[0]/g0"


def test_an_error_raised_again_after_other_work_fails_the_row(interpret):
    def program(s):
        s += "FAIL" + sgc.gen("v")
        try:
            s["v"]
        except sgc.GenerationError as error:
            s += "cleaning up"
            raise error

    state = interpret(program)
    error = state.error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "g0"
    assert state.text() == "FAILcleaning up"


def test_system_exit_and_stop_iteration_end_the_row_only(interpret):
    def leaves(s):
        raise SystemExit(3)

    def stops(s):
        next(iter(()))

    left = interpret(leaves).error()
    assert isinstance(left, sgc.SgcError)
    assert "SystemExit" in str(left)
    assert type(interpret(stops).error()) is StopIteration


def test_bad_run_time_parameters_fail_their_node(interpret):
    def program(s, tokens):
        s += "a" + sgc.gen("v", max_tokens=tokens)

    error = interpret(program, -3).error()
    assert isinstance(error, sgc.GenerationError)
    assert error.node == "g0"
    assert "max_tokens" in str(error)
