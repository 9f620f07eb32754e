"""Hoisting: what both arms begin with runs early; nothing else does, and results stay."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shapes.replies import digest, reply
from support.random_programs import load_text

import sgc
from sgc.compile import CompiledProgram, compile_spec
from sgc.testing import ScriptedBackend
from sgc_ir.graph import Node
from sgc_ir.ops import Op

ROWS = [{"q": q} for q in "abcdef"]  # the select takes each of its choices on some of them


def select(prompt: str, choices: list[str]) -> list[float]:
    return [-float(digest(prompt + choice) % 97) for choice in choices]


def outcome(program: CompiledProgram, row: dict[str, Any]) -> Any:
    backend = ScriptedBackend(reply, select=select)
    (state,) = program.run_batch([row], backend=backend, seed=3)
    calls = sorted(repr(call) for call in backend.calls)
    error = state.error()
    result = str(error) if error else (state.value, state.vars, state.text(), state.messages())
    return calls, result


def hoisted(program: sgc.Program) -> list[str]:
    """Texts and names of what is hoisted; the results are compared on all rows."""
    before = compile_spec(program.spec, [])
    after = compile_spec(program.spec, ["hoist"])
    for row in ROWS:
        assert outcome(after, row) == outcome(before, row)
    (report,) = after.reports
    counts = [sum(n.op is Op.GEN for n in p.graph.walk()) for p in (before, after)]
    assert counts[0] - counts[1] <= len(report.changes)
    return [_shown(before.graph.graph.nodes, change.node) for change in report.changes]


def _shown(nodes: tuple[Node, ...], path: str) -> str:
    from sgc_ir.graph import Graph
    from sgc_ir.paths import node_path, stream_paths

    paths = stream_paths(Graph("g", (), nodes))
    (found, *_) = [n for n in nodes if node_path(n, paths) == path]
    return str(found.attrs.get("text") or found.attrs.get("name") or found.attrs.get("role"))


def test_equal_texts_turns_and_calls_are_hoisted() -> None:
    @sgc.function
    def program(s, q: str):
        s += q + sgc.select("way", ["left", "right"])
        if s["way"] == "left":
            s += sgc.user("Go on.")
            s += "X" + sgc.gen("v", max_tokens=2) + "left"
        else:
            s += sgc.user("Go on.")
            s += "X" + sgc.gen("v", max_tokens=2) + "right"
        s += sgc.gen("w", max_tokens=1)
        return s["v"]

    assert hoisted(program) == ["user", "Go on.", "user", "X", "v"]


def test_an_arm_that_leaves_early_counts_too() -> None:
    @sgc.function
    def program(s, q: str):
        s += q + sgc.select("way", ["left", "right"])
        if s["way"] == "left":
            s += "End."
            return "left"
        s += "End."
        s += sgc.gen("v", max_tokens=1)
        return s["v"]

    assert hoisted(program) == ["End."]


@pytest.mark.parametrize("case", ["parameters", "text", "nested", "reading", "one", "order"])
def test_what_is_not_equal_or_not_first_stays(case: str) -> None:
    @sgc.function
    def program(s, q: str):
        s += q + sgc.select("way", ["left", "right"])
        seen = ""
        if s["way"] == "left":
            if case == "order":
                s += "Y"
            s += "X"
            s += sgc.gen("v", max_tokens=2)
        elif case == "parameters":
            s += "X"
            s += sgc.gen("v", max_tokens=3)
        elif case == "text":
            s += "Z"
        elif case == "nested":
            if q == "a":
                s += "X"
                s += sgc.gen("v", max_tokens=2)
            else:
                s += "X"
                s += sgc.gen("v", max_tokens=1)
        elif case == "reading":
            seen = s.text()
            s += "X"
        elif case == "order":
            s += "X"
        s += sgc.gen("w", max_tokens=1)
        return seen

    expected = {"parameters": ["X"], "nested": ["X"]}.get(case, [])
    assert hoisted(program) == expected


def test_a_hoisted_call_does_not_wait_for_the_condition() -> None:
    @sgc.function
    def slow(s, q: str):
        s += "slow" + q + sgc.select("way", ["left", "right"])
        return s["way"]

    @sgc.function
    def program(s, q: str):
        way = slow(q).value
        if way == "left":
            s += "early" + sgc.gen("v", max_tokens=1) + "l"
        else:
            s += "early" + sgc.gen("v", max_tokens=1) + "r"

    order = []
    for passes in ([], ["hoist"]):
        backend = ScriptedBackend(
            reply, select=select, delay=lambda prompt: 0.05 if prompt.startswith("slow") else 0.0
        )
        done: list[str] = []
        events = compile_spec(program.spec, passes).stream("a", backend=backend)
        done = [event.name for event in events if event.done]
        order.append(done)
    assert order == [["way", "v"], ["v", "way"]]


STATEMENTS = (
    's += "T{}"',
    's += sgc.gen("v{}", max_tokens=1)',
    's += sgc.user("turn {}")',
    's += sgc.select("w{}", ["x", "y"])',
    "s += q",
    "f{} = s.fork(1)[0]; f{} += sgc.gen('b', max_tokens=1); s += f{}['b']",
    "t.append(s.text())",
    's += ask("{}")["a"]',
)


@st.composite
def sources(draw: Any) -> str:
    """A program of nested ifs whose arms begin alike, go on differently, and may leave."""
    numbers = itertools.count()

    def block(indent: str, depth: int) -> list[str]:
        lines = []
        for _ in range(draw(st.integers(0, 2))):
            n = next(numbers)
            lines.append(indent + draw(st.sampled_from(STATEMENTS)).replace("{}", str(n)))
        if depth and draw(st.booleans()):
            n, inner = next(numbers), indent + "    "
            lines.append(f'{indent}s += sgc.select("c{n}", ["yes", "no"])')
            alike = block(inner, depth - 1)
            arms = [alike + block(inner, depth - 1) for _ in range(2)]
            for arm in arms:
                arm.append(inner + draw(st.sampled_from(["pass", "return q", 's += "."'])))
            lines += [f'{indent}if s["c{n}"] == "yes":', *arms[0], f"{indent}else:", *arms[1]]
        return lines

    body = ["    t = []", *block("    ", 3), *block("    ", 3), "    return ''.join(t)"]
    return HEAD + "\n".join(body) + "\n"


HEAD = """\
import sgc

@sgc.function
def ask(s, q):
    s += q + sgc.gen("a", max_tokens=1)

@sgc.function
def program(s, q: str):
"""


@settings(max_examples=30, deadline=None)
@given(sources())
def test_random_arms_that_begin_alike(text: str) -> None:
    program = load_text(text)
    before = compile_spec(program.spec, [])
    after = compile_spec(program.spec, ["hoist"])
    for row in ROWS[:3] if after.reports[0].changes else ():
        assert outcome(after, row) == outcome(before, row), text
