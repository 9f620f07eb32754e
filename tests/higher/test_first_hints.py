"""What calls tell of those to come once a race has cancelled the others."""

from __future__ import annotations

from typing import Any

import pytest

import sgc
from sgc.testing import ScriptedBackend
from sgc_runtime.executor.backend import RunDefaults
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync


@sgc.function
def branches(s):  # type: ignore[no-untyped-def]
    s += "go "
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f"{i}: " + sgc.gen("a", max_tokens=5) + " and " + sgc.gen("b", max_tokens=7)
        if f["b"] == "x":
            f += sgc.gen(max_tokens=9)
    found = sgc.first(1, forks)
    s += "best: " + found[0]["a"] + sgc.gen("end", max_tokens=3) + sgc.gen("last", max_tokens=2)


@sgc.function
def inner(s, i: int, items: list[str]):  # type: ignore[no-untyped-def]
    s += f"{i}: " + sgc.gen("a", max_tokens=5)
    if s["a"] == "x":
        s += sgc.gen("c", max_tokens=9)
    for item in items:
        s += item + sgc.gen("b", max_tokens=7)
    return s["a"]


@sgc.function
def programs(s, items: list[str]):  # type: ignore[no-untyped-def]
    s += "go "
    found = sgc.first(1, [inner(i, items) for i in range(3)])
    s += "best: " + found[0] + sgc.gen("end", max_tokens=3) + sgc.gen("last", max_tokens=2)


@sgc.function
def taken(s):  # type: ignore[no-untyped-def]
    s += "go "
    try:
        s += "0: " + sgc.gen("fails", max_tokens=5) + sgc.gen("b", max_tokens=7)
        text = s["b"]
    except sgc.GenerationError:
        text = "none"
    s += "best: " + text + sgc.gen("end", max_tokens=3) + sgc.gen("last", max_tokens=2)


@pytest.mark.parametrize(
    ("program", "args"),
    [(branches, {}), (programs, {"items": ["one", "two"]}), (programs, {"items": []}), (taken, {})],
)
def test_nothing_of_what_was_cancelled_is_still_to_come(
    program: sgc.Program, args: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    backend = ScriptedBackend(
        lambda prompt, params: "w",
        delay=lambda prompt: 0.0 if "1: " in prompt or "best" in prompt else 0.2,
        fail=lambda prompt: ValueError("no") if prompt.endswith("go 0: ") and not args else None,
    )
    backend.takes_hints = True
    stream = type(backend.open())
    generate = stream.generate

    async def listening(self: Any, call: Any) -> Any:
        told.append(call)
        return await generate(self, call)

    monkeypatch.setattr(stream, "generate", listening)

    async def run_row() -> RunContext:
        ctx = RunContext(backend, RunDefaults())
        state = await execute(program.compile().graph, args, ctx)
        assert state.error() is None
        return ctx

    ctx: Any = run_sync(run_row())
    end, last = told[-2:]
    assert (end.params.max_tokens, last.params.max_tokens) == (3, 2)
    assert (end.more_tokens, last.more_tokens, last.readers) == (2, 0, 0)
    assert (ctx.to_come.tokens, ctx.to_come.open) == (0, 0)
    root = ctx.streams[0]
    assert (root.life.calls, root.life.open) == (0, 0)
