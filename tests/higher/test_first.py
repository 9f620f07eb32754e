"""`sgc.first`: who is chosen, what is refused, and compiled as interpreted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.races import MODES, ask, assert_equal, backend, outcome

import sgc
from sgc_ir.codec import decode, encode
from sgc_ir.text import parse_program, print_program


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
