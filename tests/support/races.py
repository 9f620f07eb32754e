"""Races whose losers take long, run interpreted and compiled.

Those that shall lose take twenty seconds, so that a test which waits for one does not end in time.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from support.tracer import reply

import sgc
from sgc.testing import ScriptedBackend

MODES = pytest.mark.parametrize("mode", ["interpreted", "compiled"])
SLOW_S = 20.0


def backend(**kwargs: Any) -> ScriptedBackend:
    """Prompts with SLOW in them take twenty seconds, those with FAIL fail."""
    return ScriptedBackend(
        reply,
        delay=lambda prompt: SLOW_S if "SLOW" in prompt else 0.0,
        fail=lambda prompt: RuntimeError("told to fail") if "FAIL" in prompt else None,
        **kwargs,
    )


@sgc.function
def ask(s, kind: str):
    s += f"{kind}?" + sgc.gen("draft", max_tokens=8)
    s += " so:" + sgc.gen("answer", max_tokens=8)
    return {"kind": kind, "answer": s["answer"]}


def calls_without_losers(used: ScriptedBackend) -> list[str]:
    """Those that were answered; which of the others began before they lost is not told."""
    return sorted(repr(call) for call in used.calls if call["result"] is not None)


def outcome(program: sgc.Program, row: dict[str, Any], mode: str) -> dict[str, Any]:
    used = backend()
    begin = time.monotonic()
    state = program.run_batch([row], backend=used, seed=5, mode=mode)[0]
    assert time.monotonic() - begin < SLOW_S / 2
    error = state.error()
    return {
        "error": None if error is None else (type(error).__name__, str(error)),
        "value": state.value,
        "vars": state.vars,
        "text": state.text() if error is None else None,
        "usage": state.usage,
        "calls": calls_without_losers(used),
    }


def assert_equal(program: sgc.Program, **row: Any) -> dict[str, Any]:
    live, graph = outcome(program, row, "interpreted"), outcome(program, row, "compiled")
    if live["error"] is None:
        assert graph == live
    else:
        assert graph["error"] == live["error"]
    return live
