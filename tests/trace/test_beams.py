"""Beams: branches of several forks are put in an order that the run decides, and some go on."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from typing import Any

import pytest
from support.paths import Script, assert_equal_on_paths, outcome

import sgc
from sgc.compile import CompiledProgram
from sgc_ir.codec import decode, encode
from sgc_ir.ops import Op
from sgc_ir.passes.manager import defaults, run_passes
from sgc_ir.text import parse_program, print_program


@sgc.function
def tree_of_thought(s, question: str = "q"):
    s += question
    beam = list(s.fork(3))
    for b in beam:
        b += "first" + sgc.gen("idea", max_tokens=2) + sgc.select("score", ["1", "2", "3"])
    beam = sorted(beam, key=lambda b: b["score"], reverse=True)[:2]
    for depth in range(2):
        found = []
        for b in beam:
            for c in b.fork(2):
                c += f"{depth}:" + sgc.gen("idea", max_tokens=2)
                c += sgc.select("score", ["1", "2", "3"])
                found.append(c)
        beam = sorted(found, key=lambda c: c["score"], reverse=True)[:2]
    best = beam[0]
    best += "answer" + sgc.gen("answer", max_tokens=2)
    return [b.text() for b in beam], best["answer"], [b["idea"] for b in beam]


@sgc.function
def uneven_calls(s):
    """Forks of different widths, branches with different numbers of calls, in a turn."""
    with s.user():
        s += "think" + sgc.gen("t", max_tokens=1)
        found = []
        for width in 1, 3:
            for i, f in enumerate(s.fork(width)):
                f += f"w{width}" + sgc.gen("score", dtype=int)
                if width == 3 and i:
                    f += sgc.gen("extra", max_tokens=1)
                found.append(f)
        worst, *_, best = sorted(found, key=lambda f: f["score"])
        for f in worst, best:
            f += "more" + sgc.gen("more", max_tokens=1)
    return best["more"], worst["more"], best["score"], best.text()


@sgc.function
def in_one_arm(s):
    """The order is made, and what is chosen goes on, on some paths only."""
    s += "go" + sgc.gen("go")
    a, b = s.fork(2), s.fork(2)
    for f in [*a, *b]:
        f += "x" + sgc.gen("v")
        if f["v"] == "yes":
            f += "good" + sgc.gen("w")
    if s["go"] == "no":
        return "none"
    kept = max([*b, *a], key=lambda f: f["v"])
    if kept["v"] == "yes":
        kept += "on" + sgc.gen("u")
    for leaf in kept.fork(2):
        leaf += "leaf" + sgc.gen("leaf")
    return kept["v"], kept.text()


@sgc.function
def items_and_copies(s):
    s += "start"
    found = []
    for word in "one", "two":
        with s.copy() as t:
            t += word + sgc.gen("score", dtype=int)
            found.append(t)
    other = list(s.fork(2))
    for f in other:
        f += "f" + sgc.gen("score", dtype=int)
    ranked = sorted(found + other, key=lambda f: -f["score"])
    s += ranked[0]["score"] * "x" + sgc.gen("end")
    return [r["score"] for r in ranked], ranked[2].text()


PROGRAMS = [tree_of_thought, uneven_calls, in_one_arm, items_and_copies]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_equal_on_every_path(program: sgc.Program) -> None:
    assert len(assert_equal_on_paths(program, scripts=8)) > 1
    assert_equal_on_paths(program, scripts=6, failing=6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_equal_after_each_pass_and_the_round_trips(program: sgc.Program) -> None:
    compiled = program.compile()
    graph = compiled.graph
    assert any("more" in node.attrs for node in graph.walk() if node.op is Op.GET_FORK_ITEM)
    assert parse_program(print_program(graph)) == graph == decode(encode(graph))
    script = Script(1)
    before = outcome(program, {}, "interpreted", script)
    for names in [*((name,) for name in defaults()), ("merge",)]:
        changed, _ = run_passes(graph, names, check=True)
        after: Any = outcome(CompiledProgram(changed, ()), {}, "compiled", script)
        if names == ("merge",):
            before, after = {**before, "calls": None}, {**after, "calls": None}
        assert after == before, names


@sgc.function
def wide(s, n: int):
    forks = s.fork(n)
    return max(forks, key=lambda f: f.text()).text()  # here


def test_branches_of_run_time_number_are_refused() -> None:
    with pytest.raises(sgc.CompileError, match=r"test_beams\.py:\d+: .*branches"):
        wide.compile()
