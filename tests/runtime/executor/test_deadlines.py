"""Deadlines of nodes and rows, and cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from support.odd_backend import (
    MODES,
    Odd,
    ask,
    failed,
    hanging,
    pair,
    stubborn,
    words,
)

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import DeadlineError
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import Call


@MODES
@pytest.mark.parametrize("answer", [hanging, stubborn])
def test_a_node_beyond_its_deadline_fails_by_name_and_others_finish(mode: str, answer: Any) -> None:
    odd = Odd(answer, bad="a|1|")
    begin = time.monotonic()
    rows = [{"q": "a"}, {"q": "b"}]
    first, second = pair.run_batch(rows, backend=odd, mode=mode, options={"deadline": 0.3})
    assert time.monotonic() - begin < 0.7
    error = failed(first)
    assert error.node == "f0[1]/g0"
    assert "longer than its deadline of 0.3 s" in str(error)
    assert isinstance(error.__cause__, DeadlineError)
    assert isinstance(error.__cause__, TimeoutError)
    assert second.value == " ok ok"


def test_a_deadline_may_hold_for_one_variable_only() -> None:
    @sgc.function
    def two(s):
        s += "|1|" + sgc.gen("slow")
        s += sgc.gen("fast")

    async def late(call: Call, results: list[CallResult]) -> list[CallResult]:
        await asyncio.sleep(0.1)
        return results

    odd = Odd(late)
    assert two.run(backend=odd, deadline={"fast": 5, "*": 5})["fast"] == " ok"
    assert two.run(backend=odd, deadline={"fast": 5})["fast"] == " ok"
    with pytest.raises(sgc.GenerationError, match=r"node g0 .*0\.02 s"):
        two.run(backend=odd, deadline={"slow": 0.02})


@MODES
@pytest.mark.parametrize("answer", [hanging, stubborn])
def test_a_row_beyond_its_deadline_fails_with_its_nodes_in_flight(mode: str, answer: Any) -> None:
    odd = Odd(answer, bad="a|")
    begin = time.monotonic()
    rows = [{"q": "a"}, {"q": "b"}]
    first, second = pair.run_batch(rows, backend=odd, mode=mode, options={"row_deadline": 0.4})
    assert time.monotonic() - begin < 0.7
    error = failed(first)
    assert "longer than its deadline of 0.4 s; in flight: f0[0]/g0, f0[1]/g0" in str(error)
    assert isinstance(error.__cause__, TimeoutError)
    assert second.value == " ok ok"
    begun = odd.begun
    time.sleep(0.1)
    assert odd.begun == begun


def test_a_row_deadline_ends_a_row_whose_body_never_comes_back() -> None:
    release = threading.Event()

    @sgc.function
    def stuck(s):
        s += "x" + sgc.gen("v")
        value = s["v"]
        release.wait(5)
        s += sgc.gen("w")
        return value

    backend = ScriptedBackend(words)
    begin = time.monotonic()
    with pytest.raises(sgc.GenerationError, match="in flight: no node"):
        stuck.run(backend=backend, mode="interpreted", row_deadline=0.1)
    assert time.monotonic() - begin < 1
    release.set()
    time.sleep(0.1)
    assert len(backend.calls) == 1  # the body went on after the row, and reached no backend


def test_a_program_cannot_take_the_end_of_its_row() -> None:
    odd = Odd(hanging, bad="x")

    @sgc.function
    def greedy(s):
        for _ in range(3):
            try:
                s += "x" + sgc.gen("v")
                s["v"]
            except sgc.GenerationError:
                pass
        return "done"

    with pytest.raises(sgc.GenerationError, match=r"in flight: g0"):
        greedy.run(backend=odd, mode="interpreted", row_deadline=0.1)
    assert odd.begun == 1


@MODES
def test_the_row_goes_on_without_a_tool_beyond_its_deadline(mode: str) -> None:
    release = threading.Event()

    @sgc.tool(effect="pure", deadline=0.1, name=f"slow_{mode}")
    def slow():
        release.wait(5)
        return 1

    @sgc.function
    def use(s):
        s += "a" + sgc.gen("v")
        return sgc.call(slow)

    try:
        state = use.run_batch([{}], backend=ScriptedBackend(words), mode=mode)[0]
        error = failed(state)
        assert "deadline of 0.1 s" in str(error)
        assert error.node in ("g0", "g1")
        assert state["v"] == " ok"
    finally:
        release.set()


def test_tools_that_hang_do_not_hold_up_others() -> None:
    release = threading.Event()

    @sgc.tool(effect="pure", name="hangs")
    def hangs(x):
        release.wait(8)
        return x

    @sgc.tool(effect="pure", name="quick")
    def quick(x):
        return x

    @sgc.function
    def hang(s, x: int):
        return sgc.call(hangs, x)

    @sgc.function
    def go(s, x: int):
        return sgc.call(quick, x)

    try:
        rows = [{"x": i} for i in range(70)]  # more than there are tool threads
        states = hang.run_batch(rows, options={"deadline": 0.1}, parallel=70)
        assert all("deadline" in str(failed(state)) for state in states)
        assert go.run(x=3).value == 3
    finally:
        release.set()


@MODES
def test_no_call_begins_after_arun_was_cancelled(mode: str) -> None:
    @sgc.function
    def chain(s):
        for _ in range(50):
            s += "x" + sgc.gen()

    async def main() -> int:
        odd = Odd(hanging, bad="nothing")
        odd.delay = lambda prompt: 0.02
        task = asyncio.ensure_future(chain.arun(backend=odd, mode=mode, retries=3))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.03)
        begun = odd.begun
        await asyncio.sleep(0.1)
        assert odd.begun == begun
        assert odd.running == 0
        return begun

    assert 0 < asyncio.run(main()) < 50


def test_a_cancelled_attempt_under_a_deadline_ends_as_well() -> None:
    async def main() -> None:
        odd = Odd(hanging, bad="q")
        task = asyncio.ensure_future(ask.arun("q", backend=odd, deadline=60, retries=3))
        await asyncio.sleep(0.1)
        assert odd.running == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.05)
        assert (odd.running, odd.begun) == (0, 1)

    asyncio.run(main())
