"""A scripted model, and programs run on it as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sgc
from sgc.testing import ScriptedBackend


@pytest.fixture
def backend() -> ScriptedBackend:
    """Answers ` <n>` where n counts the prompt's words; fails where the last line says FAIL."""
    return ScriptedBackend(
        lambda prompt, params: f" {len(prompt.split())}",
        fail=lambda prompt: RuntimeError("told to fail") if "FAIL" in prompt[-5:] else None,
    )


@pytest.fixture
def interpret(backend: ScriptedBackend) -> Callable[..., Any]:
    """Runs a function as a program, interpreted; gives the finished state, failed or not."""

    def run(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        program = fn if isinstance(fn, sgc.Program) else sgc.function(fn)
        row = program.arguments(args, kwargs)
        return program.run_batch([row], backend=backend, mode="interpreted")[0]

    return run


@pytest.fixture
def prompts(backend: ScriptedBackend) -> Callable[[], dict[str, str]]:
    """Node -> prompt of all calls."""
    return lambda: {call["node"]: call["prompt"] for call in backend.calls}
