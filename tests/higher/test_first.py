"""`sgc.first`: who is chosen, what becomes of the others, and compiled as interpreted.

Those that shall lose take twenty seconds, so that a test which waits for one does not end in time.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tracer import reply

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.codec import decode, encode
from sgc_ir.text import parse_program, print_program

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


@sgc.function
def among_listed(s, k: int, a: str, b: str, c: str):
    found = sgc.first(k, [ask(a), ask(b), ask(c)])
    for one in found:
        s += one["kind"] + one["answer"]
    s += sgc.gen("last", max_tokens=4)
    return found


@sgc.function
def among_many(s, k: int, kinds: list[str]):
    found = sgc.first(k, [ask(kind) for kind in kinds])
    s += "Found:" + found[0]["answer"] + sgc.gen("last", max_tokens=4)
    return found


@sgc.function
def among_branches(s, a: str, b: str, c: str):
    s += "Say it"
    forks = s.fork(3)
    for fork, kind in zip(forks, [a, b, c]):
        fork += f" {kind}:" + sgc.gen("answer", max_tokens=8)
        fork.set("kind", kind)
    [best] = sgc.first(1, forks)
    s += best["answer"] + sgc.gen("last", max_tokens=4)
    return best


@sgc.function
def among_some_branches(s, a: str, b: str, c: str):
    forks = s.fork(3)
    for fork, kind in zip(forks, [a, b, c]):
        fork += f" {kind}:" + sgc.gen("answer", max_tokens=8)
    return sgc.first(1, [forks[0], forks[2]])[0]["answer"] + forks[1]["answer"]


@sgc.function
def among_a_fork(s, k: int, kinds: list[str]):
    forks = s.fork_each(kinds)
    for fork in forks:
        fork += f" {fork.item}:" + sgc.gen("answer", max_tokens=8)
    found = sgc.first(k, forks)
    s += found[0]["answer"] + sgc.gen("last", max_tokens=4)
    return found


@sgc.function
def inner_race(s, kind: str):
    return sgc.first(1, [ask(kind), ask("SLOW inner")])[0]


@sgc.function
def nested(s, a: str, b: str):
    return sgc.first(1, [inner_race(a), inner_race(b)])


@sgc.function
def read_before(s, a: str, b: str):
    forks = s.fork(2)
    for fork, kind in zip(forks, [a, b]):
        fork += kind + sgc.gen("draft", max_tokens=8)
    drafts = [len(fork["draft"]) for fork in forks]
    for fork in forks:
        fork += " SLOW" if fork is forks[0] else " so"
        fork += sgc.gen("answer", max_tokens=8)
    s += str(sgc.first(1, forks)) + sgc.gen("last", max_tokens=4)
    return sum(drafts)


@sgc.function
def some_read_before(s, kinds: list[str]):
    runs = [ask(kind) for kind in kinds]
    drafts = [run["draft"] for run in runs]
    found = sgc.first(1, runs)
    s += drafts[0] + found[0]["answer"] + sgc.gen("last", max_tokens=4)
    return found


@sgc.function
def with_ifs(s, kind: str):
    s += kind + sgc.select("first", ["yes", "no"])
    if s["first"] == "yes":
        s += " then" + sgc.gen("answer", max_tokens=8)
    else:
        s += " else" + sgc.gen("answer", max_tokens=8)
    for _ in s.loop(max=3):
        s += " more" + sgc.gen("more", max_tokens=3)
        if len(s["more"]) > 3:
            break
    return s["answer"]


@sgc.function
def among_controlled(s, kinds: list[str]):
    if len(kinds) > 1:
        s += sgc.first(1, [with_ifs(kind) for kind in kinds])[0]
    s += sgc.gen("last", max_tokens=4)


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


CASES: list[tuple[sgc.Program, dict[str, Any]]] = [
    (among_listed, {"k": 1, "a": "SLOW a", "b": "b", "c": "SLOW c"}),
    (among_listed, {"k": 2, "a": "a", "b": "SLOW b", "c": "c"}),
    (among_listed, {"k": 3, "a": "a", "b": "b", "c": "c"}),
    (among_listed, {"k": 2, "a": "a", "b": "FAIL b", "c": "c"}),
    (among_listed, {"k": 0, "a": "a", "b": "b", "c": "c"}),
    (among_many, {"k": 1, "kinds": ["SLOW a", "SLOW b", "c", "FAIL d"]}),
    (among_many, {"k": 1, "kinds": ["a"]}),
    (among_many, {"k": 2, "kinds": ["a"]}),
    (among_many, {"k": 1, "kinds": []}),
    (among_branches, {"a": "SLOW a", "b": "FAIL b", "c": "c"}),
    (among_some_branches, {"a": "SLOW a", "b": "b", "c": "c"}),
    (among_a_fork, {"k": 2, "kinds": ["a", "SLOW b", "c"]}),
    (among_a_fork, {"k": 1, "kinds": ["FAIL a", "SLOW b", "c"]}),
    (among_a_fork, {"k": 4, "kinds": ["a", "b", "c"]}),
    (nested, {"a": "SLOW a", "b": "b"}),
    (read_before, {"a": "a", "b": "b"}),
    (some_read_before, {"kinds": ["a"]}),
    (among_controlled, {"kinds": ["SLOW a", "b", "SLOW c"]}),
    (among_controlled, {"kinds": ["a"]}),
]


@MODES
@pytest.mark.parametrize(
    ("program", "row"),
    [
        (among_listed, {"k": 2, "a": "a", "b": "FAIL b", "c": "FAIL c"}),
        (among_listed, {"k": 2, "a": "SLOW a", "b": "FAIL b", "c": "FAIL c"}),
        (among_branches, {"a": "FAIL a", "b": "FAIL b", "c": "FAIL c"}),
        (among_a_fork, {"k": 2, "kinds": ["FAIL a", "SLOW b"]}),
    ],
)
def test_too_few_fail_the_row(program: sgc.Program, row: dict[str, Any], mode: str) -> None:
    kind, words = outcome(program, row, mode)["error"]
    assert (kind, "told to fail" in words) == ("GenerationError", True)


@pytest.mark.parametrize(("program", "row"), CASES, ids=[f"{p.name}-{r}" for p, r in CASES])
def test_compiled_as_interpreted(program: sgc.Program, row: dict[str, Any]) -> None:
    assert_equal(program, **row)


KINDS = st.lists(st.sampled_from(["quick", "SLOW", "FAIL"]), min_size=1, max_size=6)


@given(kinds=KINDS, short=st.integers(0, 1))
@settings(max_examples=12, deadline=None)
def test_the_quick_ones_are_chosen_in_order(kinds: list[str], short: int) -> None:
    named = [f"{kind} {i}" for i, kind in enumerate(kinds)]
    quick = [name for name in named if "quick" in name]
    wanted = len(quick)
    for program in (among_many, among_a_fork):
        if wanted:
            found = assert_equal(program, k=wanted, kinds=named)
            assert found["error"] is None
            assert [v.get("kind") for v in found["value"]] in (quick, [None] * wanted)
        if "SLOW" not in kinds:  # else one more would be waited for
            for mode in ("interpreted", "compiled"):
                row = {"k": wanted + 1 + short, "kinds": named}
                kind, words = outcome(program, row, mode)["error"]
                assert kind == "GenerationError"
                assert "told to fail" in words or f"of {len(kinds)} branches" in words


@MODES
def test_what_loses_leaves_no_trace_in_result_and_usage(mode: str) -> None:
    alone = outcome(among_many, {"k": 1, "kinds": ["c"]}, mode)
    raced = outcome(among_many, {"k": 1, "kinds": ["c", "SLOW a", "FAIL b"]}, mode)
    assert raced["value"] == alone["value"]
    assert raced["usage"] == alone["usage"]
    assert not any("SLOW a? so" in call or "/g1" in call for call in raced["calls"] if "c1" in call)


@sgc.function
def reads_a_loser(s):
    runs = [ask("quick"), ask("SLOW")]
    s += str(sgc.first(1, runs)) + runs[1]["answer"]


@sgc.function
def reads_a_failed_one(s):
    runs = [ask("quick"), ask("FAIL")]
    s += str(sgc.first(1, runs)) + sgc.gen("last", max_tokens=4)
    s.set("other", runs[1]["answer"])


@sgc.function
def reads_a_lost_branch(s):
    forks = s.fork(2)
    forks += lambda i: ["quick", "SLOW"][i] + sgc.gen("x", max_tokens=4)
    found = sgc.first(1, forks)
    s.set("other", forks[1]["x"])
    return found


@MODES
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (reads_a_failed_one, "told to fail|others were first"),
        (reads_a_lost_branch, "others were first"),
    ],
)
def test_reading_what_was_not_chosen_fails(program: sgc.Program, reason: str, mode: str) -> None:
    with pytest.raises(sgc.GenerationError, match=reason):
        program.run(backend=backend(), mode=mode)


@sgc.tool(effect="pure")
def slow_tool(what: str) -> str:
    time.sleep(SLOW_S if what == "SLOW" else 0)
    return what


@sgc.function
def uses_a_tool(s, what: str):
    try:
        s += sgc.call(slow_tool, what) + sgc.gen("x", max_tokens=4)
    except sgc.GenerationError:
        s += "no tool" + sgc.gen("x", max_tokens=4)
    return s["x"]


@sgc.function
def races_tools(s):
    runs = [uses_a_tool("SLOW"), uses_a_tool("quick")]
    s += sgc.first(1, runs)[0] + sgc.gen("last", max_tokens=4)


@sgc.function
def reads_a_lost_tool(s):
    runs = [uses_a_tool("SLOW"), uses_a_tool("quick")]
    s += sgc.first(1, runs)[0] + sgc.gen("last", max_tokens=4)
    return runs[0]["x"]


def test_a_row_does_not_wait_for_the_tools_of_losers() -> None:
    assert_equal(races_tools)
    assert "others were first" in assert_equal(reads_a_lost_tool)["error"][1]


@sgc.function
def takes_failures(s, a: str, b: str):
    try:
        found = sgc.first(1, [ask(a), ask(b)])[0]["answer"]
    except sgc.GenerationError:
        found = "none"
    s += found + sgc.gen("last", max_tokens=4)
    return found


@pytest.mark.parametrize(("a", "b"), [("a", "SLOW b"), ("FAIL a", "b"), ("FAIL a", "FAIL b")])
def test_a_program_may_take_that_too_few_finished(a: str, b: str) -> None:
    assert assert_equal(takes_failures, a=a, b=b)["error"] is None


@sgc.function
def takes_it(s):
    runs = [ask("quick"), ask("SLOW")]
    found = sgc.first(1, runs)
    try:
        s += runs[1]["answer"]
    except sgc.GenerationError:
        s += "too slow"
    return found


@MODES
def test_reading_a_loser_names_the_race(mode: str) -> None:
    line = reads_a_loser.spec.first_line + 3
    with pytest.raises(sgc.GenerationError, match="others were first") as caught:
        reads_a_loser.run(backend=backend(), mode=mode)
    assert f"sgc.first at tests/higher/test_first.py:{line}" in str(caught.value)
    assert caught.value.node == "c1"


def test_a_program_may_take_that() -> None:
    assert assert_equal(takes_it)["text"] == "too slow"


@sgc.tool(effect="irreversible")
def order(what: str) -> str:
    return what


@sgc.function
def buys(s, what: str):
    s += what + sgc.gen("x", max_tokens=4)
    return sgc.call(order, s["x"])


@sgc.function
def races_buyers(s):
    return sgc.first(1, [buys("a"), buys("b")])


@sgc.function
def orders_the_first(s):
    found = sgc.first(1, [ask("a"), ask("SLOW")])[0]["answer"]
    return sgc.call(order, found)


@sgc.function
def with_itself(s):
    return sgc.first(1, [s])


@sgc.function
def twice(s):
    run = ask("a")
    return sgc.first(1, [run, run])


@sgc.function
def nameless(s):
    forks = s.fork(2)
    forks += "x"
    return sgc.first(1, forks)


@sgc.function
def appends_later(s):
    forks = s.fork(2)
    forks += sgc.gen("x", max_tokens=4)
    sgc.first(1, forks)
    forks[0] += "more"


@sgc.function
def no_branches(s):
    return sgc.first(1, ["a", "b"])


REFUSED = [
    (races_buyers, "irreversible tool order"),
    (with_itself, "the stream itself"),
    (twice, "given a branch twice"),
    (appends_later, "was joined"),
    (no_branches, "branches of a fork, or sub-programs"),
    (nameless, "no variables of its own"),
]


@pytest.mark.parametrize(("program", "reason"), REFUSED, ids=[p.name for p, _ in REFUSED])
def test_refused_by_name_in_both_modes(program: sgc.Program, reason: str) -> None:
    with pytest.raises(sgc.CompileError, match=rf"test_first.py:\d+: .*{reason}"):
        program.compile()
    with pytest.raises(sgc.SgcError, match=reason):
        program.run(backend=backend(), mode="interpreted")


def test_a_tool_with_effects_gets_what_was_chosen() -> None:
    assert_equal(orders_the_first)


@pytest.mark.parametrize("program", [among_listed, among_many, among_branches, among_a_fork])
def test_written_forms_and_passes(program: sgc.Program) -> None:
    graph = program.compile().graph
    assert decode(encode(graph)) == graph
    assert parse_program(print_program(graph)) == graph
    assert "First" in print_program(graph)


def test_outside_of_a_program() -> None:
    with pytest.raises(sgc.SgcError, match="outside of a program"):
        sgc.first(1, [])


@given(steps=st.lists(st.integers(1, 3), min_size=2, max_size=4), k=st.integers(1, 2))
@settings(max_examples=6, deadline=None)
def test_races_in_branches_loops_and_arms(steps: list[int], k: int) -> None:
    assert_equal(tournament, k=k, names=[f"{'q' * n}{i}" for i, n in enumerate(steps)])


@sgc.function
def duel(s, name: str):
    s += name + sgc.select("side", ["left", "right"])
    if s["side"] == "left":
        found = sgc.first(1, [ask(name), ask("SLOW " + name)])
    else:
        found = sgc.first(1, [ask("FAIL " + name), ask(name)])
    s += found[0]["answer"] + sgc.gen("end", max_tokens=4)
    return s["end"]


@sgc.function
def tournament(s, k: int, names: list[str]):
    ends = []
    for name in names:
        ends.append(duel(name).value)
        s += ends[-1]
        s += sgc.first(1, [ask(ends[-1]), ask("SLOW")])[0]["answer"]
    s += str(sgc.first(k, [duel(n) for n in ends[:k]])) + sgc.gen("last", max_tokens=4)
    return ends
