"""Merging of texts: prompts stay the same, and nothing that looks at a stream is passed."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from support.executor import GraphBuilder, echo, program_of, prompts, run_graph

from sgc.testing import ScriptedBackend
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.passes.manager import run_passes


def merged(program: Program) -> Program:
    return run_passes(program, ["texts"], check=True)[0]


def count(program: Program) -> int:
    return sum(node.op is Op.CONSTANT_TEXT for node in program.walk())


def test_texts_between_two_calls_become_one() -> None:
    b = GraphBuilder()
    b.text("a")
    b.text("")
    b.text("b")
    b.gen("g")
    b.text("c")
    b.text("d")
    b.gen("h")
    program = merged(program_of(b.done()))
    assert count(program) == 2
    backend = ScriptedBackend(echo)
    run_graph(program, backend)
    assert prompts(backend) == {"g0": "ab", "g1": "ab<2:ab>cd"}


def test_the_value_of_a_text_stays_its_own() -> None:
    b = GraphBuilder()
    first, second = b.text("a"), b.text("b")
    program = merged(program_of(b.done([first, second])))
    assert count(program) == 1
    state = run_graph(program)
    assert (state.value, state.text()) == (["a", "b"], "ab")


def test_a_reading_of_the_stream_is_not_passed() -> None:
    b = GraphBuilder()
    b.text("a")
    seen = b.add(Op.VARIABLE, name="text", field="stream_text")
    b.text("b")
    program = merged(program_of(b.done(seen)))
    assert count(program) == 2
    assert run_graph(program).value == "a"


def test_text_does_not_join_across_a_fork_a_role_or_a_loop() -> None:
    b = GraphBuilder(xs=[1])
    b.text("a")
    b.static_fork(1)
    b.text("b")
    b.loop([b.arg("xs")], lambda body, _: body.add(Op.VARIABLE, name="t", field="stream_text"))
    b.text("c")
    b.add(Op.ROLE_BEGIN, role="user")
    b.text("d")
    b.add(Op.ROLE_END, role="user")
    b.text("e")
    assert count(merged(program_of(b.done()))) == 5


def test_a_loop_that_leaves_streams_alone_is_passed() -> None:
    b = GraphBuilder(xs=[1])
    b.text("a")
    b.loop([b.arg("xs")], lambda body, item: item)
    b.text("b")
    assert count(merged(program_of(b.done()))) == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.sampled_from(["text", "gen", "arg"]), st.text("ab ", max_size=3)
        )
    )
)
def test_random_streams_give_the_same_prompts(steps: list[tuple[int, str, str]]) -> None:
    b = GraphBuilder(q="?")
    _, streams = b.static_fork(3)
    for i, (at, kind, text) in enumerate(steps):
        if kind == "text":
            b.text(text, streams[at])
        elif kind == "arg":
            b.arg("q", streams[at], append=True)
        else:
            b.gen(f"g{i}", streams[at])
    before = program_of(b.done())
    results = []
    for program in (before, merged(before)):
        backend = ScriptedBackend(echo)
        state = run_graph(program, backend)
        results.append((prompts(backend), state.text()))
    assert results[0] == results[1]
