"""Runs the rows of a batch on the scripted backend: the outcome of each one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.paths import Script

import sgc
from sgc.testing import ScriptedBackend
from sgc_runtime.executor.backend import Call
from sgc_runtime.executor.prompt import Media


class _RowBackend(ScriptedBackend):
    """Notes the calls of each row."""

    def __init__(self, script: Script) -> None:
        super().__init__(script.reply, select=script.select, fail=script.fail)
        self.of_rows: dict[int, list[str]] = {}

    async def begin(
        self, kind: str, prompt: str, media: Sequence[Media], call: Call
    ) -> dict[str, Any]:
        shown = repr((kind, call.node, call.stream, prompt, call.seeds, call.params))
        self.of_rows.setdefault(call.row, []).append(shown)
        return await super().begin(kind, prompt, media, call)


def row_outcomes(
    program: sgc.Program,
    rows: list[dict[str, Any]],
    mode: str,
    script: Script,
    parallel: int = 1,
) -> list[dict[str, Any]]:
    """Of each row its calls and the result; with an error its type and what was called before."""
    backend = _RowBackend(script)
    states = program.run_batch(rows, backend=backend, seed=5, mode=mode, parallel=parallel)
    calls = backend.of_rows
    return [_outcome(state, sorted(calls.get(at, ()))) for at, state in enumerate(states)]


def _outcome(state: Any, calls: list[str]) -> dict[str, Any]:
    error = state.error()
    if error is not None:
        return {"error": (type(error).__name__, str(error)), "calls": calls}
    return {
        "error": None,
        "calls": calls,
        "vars": [(name, repr(value)) for name, value in state.vars.items()],
        "metas": [repr(state.meta(name)) for name in state.vars],
        "value": repr(state.value),
        "text": state.text(),
        "messages": state.messages(),
    }
