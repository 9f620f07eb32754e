"""A scripted backend whose answers a test changes, delays or drops, and small programs for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.params import CallResult
from sgc_runtime.backends.scripted import ScriptedStream
from sgc_runtime.executor.backend import Call

MODES = pytest.mark.parametrize("mode", ["compiled", "interpreted"])
Answer = Callable[[Call, list[CallResult]], Any]


@sgc.function
def pair(s, q: str):
    s += q
    forks = s.fork(2)
    for i, f in enumerate(forks):
        f += f"|{i}|" + sgc.gen("v")
    return forks[0]["v"] + forks[1]["v"]


@sgc.function
def ask(s, q: str):
    s += q + sgc.gen("v")
    return s["v"]


def words(prompt: str, params: sgc.SamplingParams) -> str:
    return " ok"


class Odd(ScriptedBackend):
    """Calls whose prompt holds `bad` get what `answer` makes of the right results."""

    vocab_size = 100

    def __init__(self, answer: Answer, bad: str = "|1|") -> None:
        super().__init__(words)
        self.answer = answer
        self.bad = bad
        self.begun = 0
        self.running = self.most = 0

    def open(self) -> ScriptedStream:
        return OddStream(self)


class OddStream(ScriptedStream):
    def __init__(self, backend: Odd, texts: Sequence[str] = ()) -> None:
        super().__init__(backend, texts)
        self.odd = backend

    async def generate(self, call: Call) -> list[CallResult]:
        return await self._count(call, super().generate)

    async def select(self, call: Call) -> CallResult:
        async def as_list(call: Call) -> list[CallResult]:
            return [await ScriptedStream.select(self, call)]

        results: Any = await self._count(call, as_list)
        return results[0]

    async def _count(self, call: Call, ask: Any) -> list[CallResult]:
        odd = self.odd
        odd.begun += 1
        odd.running += 1
        odd.most = max(odd.most, odd.running)
        try:
            if odd.bad not in call.prompt:
                return await ask(call)
            found = odd.answer(call, await ask(call))
            return await found if asyncio.iscoroutine(found) else found
        finally:
            odd.running -= 1

    def fork(self) -> ScriptedStream:
        return OddStream(self.odd, self._texts)


async def stubborn(*_: Any) -> list[CallResult]:
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.8)
        except asyncio.CancelledError:
            continue
    return []


async def hanging(*_: Any) -> list[CallResult]:
    await asyncio.sleep(3600)
    return []


def failed(state: Any) -> sgc.GenerationError:
    error = state.error()
    assert isinstance(error, sgc.GenerationError), error
    assert "\n" not in str(error)
    return error
