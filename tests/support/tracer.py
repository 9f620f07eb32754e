"""Runs a program interpreted and compiled on the scripted backend; the tests compare the two."""

from __future__ import annotations

import hashlib
from typing import Any

import sgc
from sgc.testing import ScriptedBackend

_WORDS = ("alpha", "Beta", "7", "no", "yes", "12", "gamma delta", "x,y", "zz", "-3")


def pick(*parts: Any) -> int:
    """A number that depends on all parts and nothing else."""
    text = "\x00".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest(), "big")


def reply(prompt: str, params: Any) -> str:
    """One to three words; digits where a number is asked for."""
    seed = pick(prompt, params.max_tokens)
    if params.dtype == "int":
        return f"{seed % 5} "
    return "".join(f" {_WORDS[(seed >> (4 * i)) % len(_WORDS)]}" for i in range(1 + seed % 3))


def scores(prompt: str, choices: Any) -> list[float]:
    return [-(pick(prompt, choice) % 1000) / 1000 for choice in choices]


def fail(prompt: str) -> Exception | None:
    return RuntimeError("told to fail") if "FAIL" in prompt else None


def outcome(program: sgc.Program, row: dict[str, Any], mode: str) -> dict[str, Any]:
    """Calls in path order, and the result; with an error its type and what was called before."""
    backend = ScriptedBackend(reply, select=scores, fail=fail)
    state = program.run_batch([row], backend=backend, seed=5, mode=mode)[0]
    error = state.error()
    calls = sorted(repr(call) for call in backend.calls)
    if error is not None:
        return {"error": type(error).__name__, "calls": calls, "reason": str(error)}
    return {
        "error": None,
        "calls": calls,
        "vars": {name: repr(value) for name, value in state.vars.items()},
        "value": repr(state.value),
        "text": state.text(),
        "messages": state.messages(),
    }


def assert_equal(program: sgc.Program, *rows: dict[str, Any]) -> None:
    """Compiled gives what interpreted gives, for each row."""
    for row in rows or ({},):
        live = outcome(program, dict(row), "interpreted")
        graph = outcome(program, dict(row), "compiled")
        if live["error"] is None:
            assert graph == live, row
        else:
            assert (graph["error"], graph["reason"]) == (live["error"], live["reason"]), row
            assert set(live["calls"]) <= set(graph["calls"])
