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
from support.paths import Script
from support.random_attempts import AttemptWriter
from support.random_branches import BranchWriter
from support.random_programs import load_text

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
        found = next((c for c in fits if c.number not in seen), fits[0])
        seen.add(found.number)
        result = real["result"]
        if not found.repeats and isinstance(result, str) and len(ways) == 1:
            outputs[found.output] = result
        if found.tokens_high is not None and isinstance(result, str) and real["kind"] == "gen":
            assert found.tokens_low <= words(result) <= found.tokens_high
    if not failed:
        for call in instance.calls:
            # Which of several calls with an open path it was, nobody can tell.
            assert "*" in call.path or call.calls_low <= (call.number in seen), call.path
            assert instance.failure is None
    if not failed and instance.bounded:
        assert len(made) <= len(instance.calls)


@pytest.mark.parametrize("shape", COMPILED, ids=lambda shape: shape.name)
def test_calls_of_shapes_are_known(shape: Shape) -> None:
    program = shape.program.compile()
    for row in shape.rows:
        state, made = run(program, row)
        if state.error() is None and any(call["result"] is None for call in made):
            continue  # the program took an error: what it does then is not foreseen
        assert_known(known(program.graph, row), made, state.error() is not None)


@pytest.mark.parametrize("name", NAMES)
def test_calls_of_the_gallery_are_known(name: str) -> None:
    program = load_program(name).compile()
    for row in rows_of(name)[:3]:
        state, made = run(program, row)
        assert_known(known(program.graph, row), made, state.error() is not None)


@pytest.mark.parametrize("seed", [*range(12), 115, 126, 128, 135, 197])
@pytest.mark.parametrize("writer", [BranchWriter, AttemptWriter])
def test_calls_of_random_programs_are_known(writer: type[BranchWriter], seed: int) -> None:
    try:
        compiled = load_text(writer(seed).text()).compile()
    except sgc.CompileError:
        return
    row = {"q": "what", "xs": ["one", "two"]}
    instance = known(compiled.graph, row)
    for number in range(6):
        script = Script(number)
        backend = ScriptedBackend(script.reply, select=script.select)
        state = compiled.run_batch([row], backend=backend, seed=5)[0]
        assert_known(instance, backend.calls, state.error() is not None)


@sgc.function
def judged(s, q: str):
    s += "Q: " + q + "\nRelated?" + sgc.select("rel", ["yes", "no"])
    if s["rel"] == "no":
        s += " Then stop." + sgc.gen("why", max_tokens=5)
        return s["why"]
    s += " Go on." + sgc.gen("more", max_tokens=7, regex="[0-9]{2,3}")
    s += "\nEnd:" + sgc.gen("end", max_tokens=9)
    return s["end"]


def test_arms_are_possible_calls_with_their_own_prompts() -> None:
    rel, why, more, end = known(judged.compile().graph, {"q": "1 + 1"}).calls
    assert (rel.calls_low, rel.prompt) == (1, ("Q: 1 + 1\nRelated?",))
    assert [c.calls_low for c in (why, more, end)] == [0, 0, 0]
    assert why.prompt == ("Q: 1 + 1\nRelated?", rel.output, " Then stop.")
    assert more.prompt == ("Q: 1 + 1\nRelated?", rel.output, " Go on.")
    assert end.prompt[-2:] == (more.output, "\nEnd:")
    assert (more.tokens_low, more.tokens_high) == (1, 4)  # three digits, and an end
    assert (end.after, why.after) == ({0, 2}, {0})
    assert (rel.output.low, rel.output.high) == (1, 1)


@sgc.function
def after_an_if(s, q: str):
    s += q + sgc.gen("a", max_tokens=2)
    if s["a"] == "x":
        s += " one two three"
    s += " end" + sgc.gen("b", max_tokens=3)


def test_text_that_may_stand_there_is_a_span_of_its_length() -> None:
    a, b = known(after_an_if.compile().graph, {"q": "Q"}).calls
    assert b.calls_low == 1
    assert b.prompt[:2] == ("Q", a.output)
    maybe = b.prompt[2]
    assert isinstance(maybe, Span)
    assert (maybe.low, maybe.high) == (0, 3)
    assert b.prompt[3:] == (" end",)


@sgc.function
def until(s, n: int):
    for _ in s.loop(max=n):
        s += "again" + sgc.gen("x", max_tokens=4)
        if s["x"] == "stop":
            break
    s += "done" + sgc.gen("y", max_tokens=2)


def test_passes_of_a_loop_are_possible_up_to_its_bound() -> None:
    instance = known(until.compile().graph, {"n": 3})
    assert [c.calls_low for c in instance.calls] == [1, 0, 0, 1]
    assert instance.bounded
    assert sum(c.tokens_high or 0 for c in instance.calls) == 14


def test_arguments_are_checked() -> None:
    graph = judged.compile().graph
    for row, reason in (
        ({}, "missing argument q"),
        ({"q": "x", "z": 1}, "unknown argument z"),
        ({"q": "\ufdd0"}, "U\\+FDD0"),
    ):
        with pytest.raises(InputError, match=reason):
            known(graph, row)
