"""Tools: registration, calls from interpreted programs, results, errors, order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import sgc
from sgc.lang.tools import tool_named

order: list[str] = []


@sgc.tool(effect="pure", name="lang_tests_upper")
def upper(text: str, *, mark: str = "") -> str:
    return text.upper() + mark


@sgc.tool(effect="repeatable", name="lang_tests_slow")
async def slow(label: str) -> dict[str, Any]:
    await asyncio.sleep(0.02)
    order.append(label)
    return {"label": label, "list": [1, 2]}


@sgc.tool(effect="irreversible", name="lang_tests_send")
def send(label: str) -> str:
    order.append(label)
    return threading.current_thread().name


@sgc.tool(effect="pure", name="lang_tests_breaks")
def breaks(what: str) -> Any:
    if what == "raise":
        raise KeyError("inside")
    return {1, 2}


def test_a_direct_call_is_plain_python():
    assert upper("a", mark="!") == "A!"


def test_results_order_and_threads(interpret, prompts):
    order.clear()

    def program(s):
        first = sgc.call(slow, "one")
        thread = sgc.call(send, label="two")
        s += sgc.call(upper, "x", mark="?") + sgc.gen("v")
        sgc.call("lang_tests_slow", "three")
        return first, thread

    state = interpret(program)
    assert state.error() is None
    assert order == ["one", "two", "three"]
    first, thread = state.value
    assert first == {"label": "one", "list": [1, 2]}
    assert thread != "sgc-runtime"
    assert prompts() == {"g3": "X?"}


def test_a_failing_tool_is_named(interpret):
    def raises(s):
        sgc.call(breaks, "raise")

    def no_json(s):
        sgc.call(breaks, "set")

    for program in (raises, no_json):
        error = interpret(program).error()
        assert isinstance(error, sgc.SgcError), program
        assert "lang_tests_breaks" in str(error)
    cause = interpret(raises).error()
    while cause is not None and not isinstance(cause, KeyError):
        cause = cause.__cause__
    assert isinstance(cause, KeyError)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_ends_oddly_fails_its_row_and_nothing_else(interpret, kind, is_async):
    def sync_body(what: str) -> str:
        if what == "odd":
            raise kind("end")
        return what

    async def async_body(what: str) -> str:
        return sync_body(what)

    odd = sgc.tool(effect="pure", name="lang_tests_odd")(async_body if is_async else sync_body)

    def program(s, what: str):
        return sgc.call(odd, what)

    assert "lang_tests_odd raised" in str(interpret(program, what="odd").error())
    assert interpret(program, what="fine").value == "fine"


def test_an_effect_must_be_given():
    with pytest.raises(sgc.ToolError, match="effect"):
        sgc.tool(lambda x: x)
    with pytest.raises(sgc.ToolError, match="effect"):
        sgc.tool()
    with pytest.raises(sgc.ToolError, match="irreversible"):
        sgc.tool(effect="sometimes")


def test_what_is_no_tool_is_refused(interpret):
    def program(s):
        return sgc.call(len, "x")

    assert isinstance(interpret(program).error(), sgc.ToolError)
    with pytest.raises(sgc.SgcError, match="outside"):
        sgc.call(upper, "x")
    with pytest.raises(sgc.ToolError, match="not registered"):
        tool_named("lang_tests_nope")


def test_two_tools_of_one_name_are_ambiguous_by_name_only():
    def make(result: int) -> Any:
        if result == 1:

            @sgc.tool(effect="pure", name="lang_tests_double")
            def one() -> int:
                return 1

            return one

        @sgc.tool(effect="pure", name="lang_tests_double")
        def two() -> int:
            return 2

        return two

    make(1), make(1)
    assert tool_named("lang_tests_double")() == 1
    make(2)
    with pytest.raises(sgc.ToolError, match="two tools"):
        tool_named("lang_tests_double")
