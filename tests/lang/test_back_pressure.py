"""Rows stream through in bounded memory, and never more than `parallel` run at once."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import sgc
from sgc.batch import ROWS_AHEAD
from sgc.testing import ScriptedBackend
from sgc_ir.params import CallResult
from sgc_runtime.backends.scripted import ScriptedStream
from sgc_runtime.executor.backend import Call


@sgc.function
def ask(s, q: int):
    s += f"{q}" + sgc.gen("v")
    return s["v"]


@sgc.function
def wide(s, q: int):
    s += f"{q}"
    forks = s.fork(4)
    for f in forks:
        f += "|" + sgc.gen("v")
    return [f["v"] for f in forks]


class Light(ScriptedBackend):
    """A scripted backend without a log, which would grow; counts the rows inside of it."""

    def __init__(self, reply: str = " ok", delay_s: float = 0.0) -> None:
        super().__init__(lambda prompt, params: reply)
        self.delay_s = delay_s
        self.rows: dict[int, int] = {}
        self.most_rows = self.most_calls = 0
        self.gate: dict[int, asyncio.Event] = {}

    def open(self) -> ScriptedStream:
        return LightStream(self)


class LightStream(ScriptedStream):
    def __init__(self, backend: Light, texts: Any = ()) -> None:
        super().__init__(backend, texts)
        self.light = backend

    async def generate(self, call: Call) -> list[CallResult]:
        light = self.light
        light.rows[call.row] = light.rows.get(call.row, 0) + 1
        light.most_rows = max(light.most_rows, len(light.rows))
        light.most_calls = max(light.most_calls, sum(light.rows.values()))
        try:
            await asyncio.sleep(light.delay_s)
            results = await super().generate(call)
        finally:
            light.rows[call.row] -= 1
            if not light.rows[call.row]:
                del light.rows[call.row]
        light.calls.clear()
        return results

    def fork(self) -> ScriptedStream:
        return LightStream(self.light, self._texts)


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_no_more_rows_than_parallel_reach_the_backend(mode: str) -> None:
    light = Light(delay_s=0.005)
    rows = [{"q": i} for i in range(40)]
    states = wide.run_batch(rows, backend=light, mode=mode, parallel=5)
    assert all(state.error() is None for state in states)
    assert light.most_rows == 5
    assert 5 < light.most_calls <= 5 * 4  # calls of one row's forks overlap and count once


def growth(num_rows: int, settled: int) -> int:
    """Memory blocks that a streaming batch holds at its end beyond those after `settled` rows."""
    light = Light()
    rows = ({"q": i} for i in range(num_rows))
    for i, state in enumerate(ask.run_batch(rows, backend=light, iterate=True, parallel=32)):
        assert state.value == " ok"
        if i == settled:
            gc.collect()
            before = sys.getallocatedblocks()
    gc.collect()
    return sys.getallocatedblocks() - before


def test_a_streaming_batch_holds_no_rows_that_were_handed_out() -> None:
    assert growth(6_000, 1_000) < 2_500


@pytest.mark.long
def test_two_hundred_thousand_rows_stream_in_bounded_memory() -> None:
    assert growth(200_000, 2_000) < 5_000


def test_a_slow_first_row_bounds_what_is_taken_behind_it() -> None:
    taken = 0
    release = threading.Event()

    @sgc.tool(effect="pure", name="wait_for_release")
    def wait(q):
        return release.wait(5) if q == 0 else True

    @sgc.function
    def slow_first(s, q: int):
        return sgc.call(wait, q)

    def rows() -> Iterator[dict[str, int]]:
        nonlocal taken
        for i in range(400):
            taken += 1
            yield {"q": i}

    states = slow_first.run_batch(rows(), iterate=True, parallel=4)
    threading.Timer(0.3, release.set).start()
    next(states)
    assert taken <= 4 * ROWS_AHEAD + 1
    assert sum(1 for _ in states) == 399


def test_two_batches_on_different_backends_do_not_mix() -> None:
    answers: dict[str, list[Any]] = {}
    backends = {name: Light(f" {name}", delay_s=0.001) for name in ("one", "two")}

    def work(name: str) -> None:
        rows = [{"q": i} for i in range(200)]
        states = wide.run_batch(rows, backend=backends[name], parallel=16, seed=len(name))
        answers[name] = [state.value for state in states]

    threads = [threading.Thread(target=work, args=(name,)) for name in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {name: [[f" {name}"] * 4] * 200 for name in backends}
    assert all(light.most_rows <= 16 for light in backends.values())
