"""What is known of the calls of a program against the calls of its runs on a scripted backend."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from shapes import calls as shape_calls  # noqa: F401  (fill the catalogue)
from shapes import failures, replies, streams, texts  # noqa: F401
from shapes.catalog import SHAPES, Shape
from support.gallery import NAMES, load_program, rows_of

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.analysis.follow import follow
from sgc_ir.analysis.known_calls import Instance, KnownCall, Setting
from sgc_ir.analysis.spans import Span
from sgc_ir.errors import InputError
from sgc_ir.graph import Program
from sgc_runtime.executor.chatml import ChatML

Reply = Callable[[str, Any], str]
COMPILED = [shape for shape in SHAPES if shape.refused is None]


def words(text: str) -> int:
    return len(text.split())


def known(program: Program, row: Mapping[str, Any]) -> Instance:
    return follow(program, row, 0, Setting(ChatML(), words))


def run(program: Any, row: Mapping[str, Any], reply: Reply = replies.reply) -> tuple[Any, list]:
    backend = ScriptedBackend(reply, select=replies.select)
    state = program.run_batch([row], backend=backend, seed=3)[0]
    return state, backend.calls


def pattern_of(path: str) -> str:
    return re.escape(path).replace(r"\*", r"\d+")


def prompt_pattern(call: KnownCall, outputs: Mapping[Span, str]) -> str:
    """A regex for the prompt: texts that earlier calls gave stand where their spans are."""
    parts: list[str] = []
    for part in call.prompt:
        text = part if isinstance(part, str) else outputs.get(part)
        parts.append("(?s:.*)" if text is None else re.escape(text))
    return "".join(parts)


def assert_known(instance: Instance, made: Sequence[Mapping[str, Any]], failed: bool) -> None:
    """Each call that was made is one that is known; each that happens for certain was made."""
    by_path: dict[str, list[KnownCall]] = {}
    for call in instance.calls:
        by_path.setdefault(call.path, []).append(call)
    outputs: dict[Span, str] = {}
    seen: set[int] = set()
    order = {id(c): i for i, c in enumerate(made)}
    for real in sorted(made, key=lambda c: (len(c["prompt"]), order[id(c)])):
        ways = [
            c
            for path, found in by_path.items()
            for c in found
            if re.fullmatch(pattern_of(path), real["node"])
        ]
        fits = [c for c in ways if re.fullmatch(prompt_pattern(c, outputs), real["prompt"])]
        assert fits, (real["node"], real["prompt"], [c.prompt for c in ways])
        found = fits[0]
        seen.add(found.number)
        result = real["result"]
        if not found.repeats and isinstance(result, str) and len(ways) == 1:
            outputs[found.output] = result
        if found.tokens_high is not None and isinstance(result, str) and real["kind"] == "gen":
            assert found.tokens_low <= words(result) <= found.tokens_high
    if not failed:
        for call in instance.calls:
            assert call.calls_low <= (call.number in seen), call.path
            assert instance.failure is None
    if not failed and instance.bounded:
        assert len(made) <= len(instance.calls)


@pytest.mark.parametrize("shape", COMPILED, ids=lambda shape: shape.name)
def test_calls_of_shapes_are_known(shape: Shape) -> None:
    program = shape.program.compile()
    for row in shape.rows:
        state, made = run(program, row)
        assert_known(known(program.graph, row), made, state.error() is not None)


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_the_gallery_are_known(name: str) -> None:
    program = load_program(name).compile()
    for row in rows_of(name)[:3]:
        state, made = run(program, row)
        assert_known(known(program.graph, row), made, state.error() is not None)
