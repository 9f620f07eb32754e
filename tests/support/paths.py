"""Runs a program interpreted and compiled over scripts that take many paths, and compares."""

from __future__ import annotations

from typing import Any

from support.tracer import pick

import sgc
from sgc.testing import ScriptedBackend

WORDS = ("yes", "no", "a", "7")


class Script:
    """Replies that depend on the prompt and on the number of the script."""

    def __init__(self, number: int, words: tuple[str, ...] = WORDS, failing: int = 0) -> None:
        self.number = number
        self.words = words
        self.failing = failing

    def reply(self, prompt: str, params: Any) -> str:
        seed = pick(self.number, prompt, params.max_tokens)
        if params.dtype == "int":
            return f"{seed % 5} "
        if params.dtype == "bool":
            return ("True", "False")[seed % 2]
        return self.words[seed % len(self.words)]

    def select(self, prompt: str, choices: Any) -> list[float]:
        return [-(pick(self.number, prompt, choice) % 1000) / 1000 for choice in choices]

    def fail(self, prompt: str) -> Exception | None:
        is_told = self.failing and pick(self.number, prompt, "fail") % self.failing == 0
        return RuntimeError("told to fail") if is_told else None


def outcome(program: sgc.Program, row: dict[str, Any], mode: str, script: Script) -> dict[str, Any]:
    """Calls and the result; with an error its type and what was called before."""
    backend = ScriptedBackend(script.reply, select=script.select, fail=script.fail)
    state = program.run_batch([row], backend=backend, seed=5, mode=mode)[0]
    error = state.error()
    calls = sorted(repr(call) for call in backend.calls)
    if error is not None:
        return {"error": type(error).__name__, "calls": calls}
    return {
        "error": None,
        "calls": calls,
        "vars": {name: repr(state.vars[name]) for name in sorted(state.vars)},
        "value": repr(state.value),
        "text": state.text(),
        "messages": state.messages(),
    }


def assert_equal_on_paths(
    program: sgc.Program, *rows: dict[str, Any], scripts: int = 12, failing: int = 0
) -> set[str]:
    """Compiled gives what interpreted gives under each script; gives the results that there were,
    to check that several paths were taken."""
    seen: set[str] = set()
    for row in rows or ({},):
        for number in range(scripts):
            script = Script(number, failing=failing)
            live = outcome(program, dict(row), "interpreted", script)
            graph = outcome(program, dict(row), "compiled", script)
            seen.add(f"{live['error']} {live.get('value')} {len(live['calls'])}")
            if live["error"] is None:
                assert graph == live, (row, number)
            else:
                assert graph["error"] == live["error"], (row, number)
                assert failing or set(live["calls"]) <= set(graph["calls"])
    return seen
