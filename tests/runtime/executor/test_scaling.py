"""The executor's work grows with the program, not with its square: calls are counted, not time."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

import sgc
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute


def straight(n: int) -> tuple[Any, dict[str, Any]]:
    @sgc.function
    def program(s: Any) -> None:
        for i in range(n):
            s += f"line {i} " + sgc.gen(f"v{i}")

    return program, {}


def chat(n: int) -> tuple[Any, dict[str, Any]]:
    @sgc.function
    def program(s: Any) -> None:
        for i in range(n):
            s += sgc.user(f"q{i}")
            s += sgc.assistant(sgc.gen(f"v{i}"))

    return program, {}


def branches(n: int) -> tuple[Any, dict[str, Any]]:
    @sgc.function
    def program(s: Any) -> None:
        s += "start"
        forks = s.fork(n)
        for i, f in enumerate(forks):
            f += f" b{i} " + sgc.gen("v")
        forks.join()
        s += sgc.gen("end")

    return program, {}


@sgc.function
def walked(s: Any, items: list[str]) -> Any:
    s += "start"
    forks = s.fork_each(items)
    for f in forks:
        f += f.item + " "
        f += sgc.gen("v")
    forks.join()
    return s["v"]


def passes(n: int) -> tuple[Any, dict[str, Any]]:
    return walked, {"items": ["a"] * n}


def num_calls(program: Any, args: dict[str, Any]) -> int:
    """Calls of functions, Python's and built-in ones, that one row takes."""
    graph = program.compile().graph
    backend = ScriptedBackend(lambda prompt, params: "ok")
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    async def row() -> None:
        state = await execute(graph, args, RunContext(backend))
        assert state.error() is None

    async def measured() -> None:
        await row()  # what is worked out once for all rows
        sys.setprofile(note)
        try:
            await row()
        finally:
            sys.setprofile(None)

    asyncio.run(measured())
    return count


@pytest.mark.parametrize("make", [straight, chat, branches, passes])
def test_four_times_the_program_is_four_times_the_work(make: Any) -> None:
    small, large = num_calls(*make(50)), num_calls(*make(200))
    assert large < 4.3 * small
