"""Dead-node elimination: calls that no output needs go, and nothing that is declared changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from shapes.replies import reply, select
from support.random_programs import ProgramWriter, load_text

import sgc
from sgc.compile import CompiledProgram, compile_spec
from sgc.testing import ScriptedBackend
from sgc_ir.passes.manager import run_passes

BASE = ("fold", "texts")


def run(program: CompiledProgram, **row: Any) -> tuple[Any, list[str]]:
    backend = ScriptedBackend(reply, select=select)
    (state,) = program.run_batch([row], backend=backend)
    return state, sorted(f"{call['node']}:{call['prompt']}" for call in backend.calls)


def both(program: sgc.Program, *outputs: str, **row: Any) -> tuple[Any, Any, set[str]]:
    """States with all nodes and with the needed ones, and the paths of the calls left out."""
    spec = replace(program.spec, outputs=outputs)
    whole, lean = compile_spec(spec, BASE), compile_spec(spec, ["dead", *BASE])
    state, calls = run(whole, **row)
    needed, fewer = run(lean, **row)
    assert set(fewer) <= set(calls)
    assert (needed.value, needed.text(), needed.messages()) == (
        (state.value, state.text(), state.messages())
    )
    assert all(needed.vars[name] == state.vars[name] for name in outputs)
    return state, needed, {c.partition(":")[0] for c in set(calls) - set(fewer)}


@sgc.tool(effect="pure")
def size(x: str) -> int:
    return len(x)


LOG: list[str] = []


@sgc.tool(effect="irreversible")
def note(x: str) -> None:
    LOG.append(x)


@sgc.function
def ask(s, q: str):
    s += q + sgc.gen("a", max_tokens=3)
    return s["a"]


@sgc.function
def tell(s, q: str):
    s += q + sgc.gen("a", max_tokens=3)
    sgc.call(note, s["a"])


@sgc.function
def everything(s, q: str):
    s += q + sgc.gen("root", max_tokens=2)
    read = ask("r")
    ask("u")
    tell("t")
    sgc.call(size, s["root"])
    forks = s.fork(3)
    for i, f in enumerate(forks):
        with f.user():
            f += f"branch {i}" + sgc.gen("early", max_tokens=1)
        f += sgc.gen("late", max_tokens=1)
    s += forks[1]["early"]
    return read["a"]


def test_what_nothing_needs_goes_and_effects_stay() -> None:
    LOG.clear()
    _, _, gone = both(everything, q="Q")
    assert gone == {"c1/g0", "f0[0]/g0", "f0[0]/g1", "f0[1]/g1", "f0[2]/g0", "f0[2]/g1"}
    assert len(LOG) == 2  # once by each


@sgc.function
def gathered(s, q: str):
    forks = s.fork(2)
    for f in forks:
        f += q + sgc.gen("x", max_tokens=1)
        f += sgc.gen("y", max_tokens=1)
    forks.join()
    return None


def test_only_the_declared_variables_of_a_join_are_gathered() -> None:
    state, lean, gone = both(gathered, "x", q="Q")
    assert gone == {"f0[0]/g1", "f0[1]/g1"}
    assert (list(state.vars), list(lean.vars)) == (["x", "y"], ["x"])


def test_without_declared_outputs_nothing_is_left_out() -> None:
    program = compile_spec(everything.spec, BASE)
    found, (report,) = run_passes(program.graph, ["dead"], check=True)
    assert found is program.graph
    assert not report.changes


def test_each_call_that_is_left_out_is_listed() -> None:
    program = compile_spec(replace(gathered.spec, outputs=("x",)), ["dead"])
    (report,) = program.reports
    assert [(c.node, c.text) for c in report.changes] == [
        (f"f0[{i}]/g1", "is left out: Gen y, which no output needs") for i in range(2)
    ]


def test_an_expression_that_may_raise_is_kept_with_what_it_reads() -> None:
    @sgc.function
    def number(s, q: str):
        int(q)
        int(ask(q)["a"])
        s += q

    spec = replace(number.spec, outputs=())
    lean = compile_spec(spec, ["dead"])
    (state,) = lean.run_batch([{"q": "x"}], backend=ScriptedBackend(lambda p, _: "no number"))
    assert isinstance(state.error(), ValueError)
    assert run(lean, q="7")[0].error() is None  # the call that would have failed is gone


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_random_programs_keep_value_text_and_messages(seed: int) -> None:
    program = load_text(ProgramWriter(seed).text())
    row = {"q": "hey", "n": 2, "xs": ["a", "b"], "ys": ["u", "v", "w"]}
    try:
        spec = replace(program.spec, outputs=())
        whole, lean = compile_spec(spec, BASE), compile_spec(spec, ["dead", *BASE])
    except sgc.CompileError as error:
        assert error.line is not None, error  # noqa: PT017
        return
    state, calls = run(whole, **row)
    needed, fewer = run(lean, **row)
    if state.error() is None:
        assert set(fewer) <= set(calls)
        assert needed.error() is None
        assert repr(needed.value) == repr(state.value)
        assert (needed.text(), needed.messages()) == (state.text(), state.messages())
