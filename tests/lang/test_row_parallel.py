"""One model call of a row at a time: rows still run side by side, and results are the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import InputError
from sgc_runtime.backends.scripted import ScriptedStream

MODES = ("compiled", "interpreted")


@sgc.function
def branches(s: Any, subject: str) -> list[str]:
    s += subject
    forks = s.fork(4)
    for i, f in enumerate(forks):
        f += f" branch {i}:"
        f += sgc.gen("text", max_tokens=4)
        f += sgc.select("grade", ["good", "bad"])
    return [f["text"] + f["grade"] for f in forks]


class CountingBackend(ScriptedBackend):
    """Notes how many calls are in flight at most, in all and of one row."""

    def __init__(self) -> None:
        super().__init__(lambda prompt, params: f" {len(prompt)}")
        self.now: dict[int, int] = {}
        self.most = self.most_of_row = 0

    def open(self) -> ScriptedStream:
        return CountingStream(self)

    async def note(self, row: int, step: int) -> None:
        self.now[row] = self.now.get(row, 0) + step
        self.most = max(self.most, sum(self.now.values()))
        self.most_of_row = max(self.most_of_row, self.now[row])


class CountingStream(ScriptedStream):
    async def generate(self, call: Any) -> Any:
        return await self._watched(call, super().generate)

    async def select(self, call: Any) -> Any:
        return await self._watched(call, super().select)

    def fork(self) -> Any:
        forked = super().fork()
        forked.__class__ = CountingStream
        return forked

    async def _watched(self, call: Any, ask: Any) -> Any:
        backend = self._backend
        assert isinstance(backend, CountingBackend)
        await backend.note(call.row, 1)
        await asyncio.sleep(0.001)
        result = await ask(call)
        await backend.note(call.row, -1)
        return result


def run(mode: str, **options: Any) -> tuple[list[Any], CountingBackend]:
    backend = CountingBackend()
    rows = [{"subject": f"row {i}"} for i in range(5)]
    states = branches.run_batch(rows, backend=backend, mode=mode, **options)
    assert [state.error() for state in states] == [None] * len(rows)
    return [(state.value, state.text()) for state in states], backend


@pytest.mark.parametrize("mode", MODES)
def test_calls_of_a_row_come_one_by_one(mode: str) -> None:
    side_by_side, backend = run(mode)
    assert backend.most_of_row == 4
    one_by_one, backend = run(mode, row_parallel=False)
    assert backend.most_of_row == 1
    assert backend.most == 5, "rows do not wait for each other"
    assert one_by_one == side_by_side


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_fails_lets_the_next_one_go_on(mode: str) -> None:
    def fail(prompt: str) -> Exception | None:
        return sgc.BackendError("no") if prompt.endswith("branch 1:") else None

    backend = ScriptedBackend(lambda prompt, params: " x", fail=fail)
    rows = [{"subject": "a"}]
    (state,) = branches.run_batch(rows, backend=backend, mode=mode, row_parallel=False)
    assert "no" in str(state.error())
    assert len([c for c in backend.calls if c["kind"] == "gen"]) == 4


def test_it_is_a_yes_or_no() -> None:
    with pytest.raises(InputError, match="row_parallel=3; give True or False"):
        branches.run(subject="a", row_parallel=3, backend=CountingBackend())
