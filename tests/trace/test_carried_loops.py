"""Loops over run-time values whose passes hand state on, append, or leave: equal on every path."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc
from sgc.trace.tracer import trace_program
from sgc_ir.ops import Op


@sgc.function
def counter(s, xs: list[str]):
    n = 0
    last = "none"
    for x in xs:
        n += len(x)
        last = x
    return n, last


@sgc.function
def growing(s, xs: list[str]):
    s += "start"
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
    s += "end" + sgc.gen("w")
    return s.get("v", "unset"), s["w"]


@sgc.function
def leaving(s, xs: list[str]):
    s += "start"
    seen = []
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        if s["v"] == "yes":
            break
        seen.append(s["v"])
    else:
        s += "all" + sgc.gen("e")
    s += "end" + sgc.gen("w")
    return seen, len(seen)


@sgc.function
def finding(s, xs: list[str]):
    s += "find"
    for i, x in enumerate(xs):
        s += x + sgc.gen("v", max_tokens=1)
        if s["v"] == "yes":
            return i, x
        if s["v"] == "no":
            continue
        s += "again" + sgc.gen("u", max_tokens=1)
    s += sgc.gen("w")
    return None


@sgc.function
def carried_condition(s, xs: list[str]):
    state = "a"
    log = ""
    for x in xs:
        s += f"{state}{x}" + sgc.gen("v", max_tokens=1)
        if state == "a" and s["v"] == "yes":
            state = "b"
            log += x
        elif s["v"] == "no":
            state = s["v"]
    return state, log


@sgc.function
def count_times(s):
    s += "n" + sgc.gen("n", dtype=int)
    total = 0
    for i in range(s["n"]):
        s += f"{i}" + sgc.gen("v", max_tokens=1)
        if s["v"] == "7":
            break
        total += i
    return total


@sgc.function
def nested_loops(s, xs: list[str]):
    n = 0
    for x in xs:
        for y in xs:
            s += x + y + sgc.gen("v", max_tokens=1)
            if s["v"] == "yes":
                n += 1
                break
        s += "|"
    return n


@sgc.function
def conditional_append(s, xs: list[str]):
    kept = ["first"]
    for x in xs:
        if x != "no":
            kept.append(x)
    return kept, len(kept), [k + "!" for k in kept]


@sgc.function
def read_while_it_grows(s, xs: list[str]):
    out: list[str] = []
    for x in xs:
        out.append(x + str(len(out)))
        out.append("-")
    return out


@sgc.function
def attributes(s, xs: list[str]):
    box = SimpleNamespace(n=0, last="")
    for x in xs:
        box.n += 1
        box.last = x
    return box.n, box.last


@sgc.function
def counted_calls(s, xs: list[str]):
    s += "c"
    for x in xs:
        if x != "no":
            s += x + sgc.gen("v", max_tokens=1)
        f = s.fork(2)
        f[0].extend("0" + sgc.gen("u", max_tokens=1))
        f[1].extend("1" + sgc.gen("u", max_tokens=1))
        s += f[0]["u"]
    s += "end" + sgc.gen("w")
    return s["w"]


@sgc.function
def turns(s, questions: list[str]):
    s += sgc.system("be brief")
    history = ""
    for q in questions:
        s += sgc.user(q + history)
        s += sgc.assistant(sgc.gen("a", max_tokens=2))
        history = history + s["a"]
        if s["a"] == "yes":
            return "stopped at " + q
    return history


@sgc.function
def summed(s, xs: list[str]):
    total, text = 0, "-"
    for i, x in enumerate(xs):
        total = total + (i if x == "no" else len(x))
        text = f"{text}{x}"
        s += text
    return total, text, s.text()


ROWS = [{"xs": ["a", "no", "c"]}, {"xs": []}, {"xs": ["x"]}]
CASES: list[tuple[sgc.Program, list[dict[str, Any]]]] = [
    (counter, ROWS),
    (growing, ROWS),
    (leaving, ROWS),
    (finding, ROWS),
    (carried_condition, ROWS),
    (count_times, [{}]),
    (nested_loops, ROWS),
    (conditional_append, ROWS),
    (read_while_it_grows, ROWS),
    (attributes, ROWS),
    (counted_calls, ROWS),
    (turns, [{"questions": ["a", "b", "c"]}, {"questions": []}]),
    (summed, ROWS),
]


@pytest.mark.parametrize(("program", "rows"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_equal_on_every_path(program: sgc.Program, rows: list[dict[str, Any]]) -> None:
    assert len(assert_equal_on_paths(program, *rows, scripts=5)) > 1


def test_one_body_stands_for_all_passes() -> None:
    graph = trace_program(leaving.spec, {}).graph
    [loop] = [node for node in graph.nodes if node.op is Op.LOOP]
    assert loop.body is not None
    assert sum(node.op is Op.GEN for node in loop.body.nodes) == 1
    assert "kind" in loop.body.nodes[-1].attrs


def test_loop_without_exits_has_no_kind() -> None:
    graph = trace_program(counter.spec, {}).graph
    [loop] = [node for node in graph.nodes if node.op is Op.LOOP]
    assert loop.body is not None
    assert "kind" not in loop.body.nodes[-1].attrs
    assert set(loop.attrs["carried"]) == {"v0", "v1"}


def test_long_loop_that_a_run_leaves_is_one_body() -> None:
    @sgc.function
    def program(s):
        for i in s.loop(max=1000):
            s += f"{i}" + sgc.gen("v", max_tokens=1)
            if s["v"] == "yes":
                break
        return i, s["v"]

    assert len(trace_program(program.spec, {}).graph.nodes) < 20
    assert len(assert_equal_on_paths(program, {})) > 1


def test_long_loop_that_nothing_leaves_is_unrolled() -> None:
    @sgc.function
    def program(s):
        for i in range(100):
            s += f"{i}"

    assert not any(n.op is Op.LOOP for n in trace_program(program.spec, {}).graph.nodes)
