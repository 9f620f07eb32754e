"""Sizes of graphs: linear in the number of ifs, exits and branches, never in that of paths."""

from __future__ import annotations

from collections import Counter

import pytest

import sgc
from sgc.trace.tracer import trace_program
from sgc_ir.ops import Op
from sgc_ir.verify import verify

SIZES = (2, 5, 10, 50)


@sgc.function
def ifs(s, n: int):
    last = ""
    for i in range(n):
        s += f"q{i}" + sgc.gen("q")
        if s["q"] == "yes":
            s += "Y" + sgc.gen("a")
            last = s["a"]
        s += sgc.gen("after")
    return last


@sgc.function
def exits(s, n: int):
    for i in range(n):
        s += f"q{i}" + sgc.gen("q")
        if s["q"] == "yes":
            break
    return s["q"]


@sgc.function
def nested_exits(s, n: int):
    for _ in range(n):
        for _ in range(2):
            s += sgc.gen("q")
            if s["q"] == "no":
                break
            if s["q"] == "yes":
                continue
            s += "k"


@sgc.function
def forks(s, n: int):
    s += "x"
    for b in s.fork(n):
        b += sgc.gen("v")
        if b["v"] == "yes":
            b += sgc.gen("w")
        b += sgc.gen("z")


@sgc.function
def chain(s, n: int):
    s += sgc.gen("q")
    x = ""
    for i in range(n):
        if s["q"] == str(i):
            x = f"is {i}"
    return x


def counts(program: sgc.Program, n: int) -> Counter[Op]:
    traced = trace_program(program.spec, {"n": n})
    verify(traced)
    return Counter(node.op for node in traced.graph.nodes)


@pytest.mark.parametrize(
    ("program", "gens", "branches"),
    [(ifs, 3, 1), (exits, 1, 1), (nested_exits, 2, 4), (forks, 3, 1), (chain, 0, 1)],
    ids=lambda x: getattr(x, "name", ""),
)
def test_linear_in_statements(program: sgc.Program, gens: int, branches: int) -> None:
    small = counts(program, SIZES[0])
    for n in SIZES:
        found = counts(program, n)
        assert found[Op.GEN] == gens * n + (program is chain)
        assert found[Op.BRANCH] <= branches * n
        assert found[Op.MERGE] <= small[Op.MERGE] * n
        assert found.total() <= small.total() * n


def test_ten_ifs_make_31_calls_not_1024() -> None:
    assert counts(ifs, 10)[Op.GEN] == 30


def test_untouched_branches_wait_for_no_predicate() -> None:
    graph = trace_program(forks.spec, {"n": 3}).graph
    streams = [node.id for node in graph.nodes if node.op is Op.GET_FORK_ITEM]
    for node in graph.nodes:
        if node.control is not None and node.stream in streams:
            cond = graph.nodes[node.control[0]].attrs["cond"]
            test = graph.nodes[cond.node]
            read = graph.nodes[test.attrs["args"][0].node]
            assert graph.nodes[read.attrs["of"].node].stream == node.stream


def test_impossible_outcomes_are_pruned() -> None:
    @sgc.function
    def program(s):
        s += sgc.select("c", ["a", "b"])
        if s["c"] == "a":
            return "A"
        if s["c"] == "b":
            return "B"
        s += sgc.gen("never")
        return "never"

    graph = trace_program(program.spec, {}).graph
    assert sum(node.op is Op.BRANCH for node in graph.nodes) == 1
    assert not any(node.op is Op.GEN for node in graph.nodes)


def test_bound_argument_leaves_no_branch() -> None:
    @sgc.function
    def program(s, mode: str):
        if mode == "short":
            s += sgc.gen("v", max_tokens=1)
        else:
            s += sgc.gen("v", max_tokens=9)

    graph = trace_program(program.spec, {"mode": "short"}).graph
    assert not any(node.op in (Op.BRANCH, Op.MERGE) for node in graph.nodes)


def test_arms_of_a_chain_meet_in_one_merge() -> None:
    @sgc.function
    def program(s, q: str):
        if q == "a":
            x = 1
        elif q == "b":
            x = 2
        elif q.startswith("c"):
            x = 3
        else:
            x = 4
        return x

    graph = trace_program(program.spec, {}).graph
    [merge] = [node for node in graph.nodes if node.op is Op.MERGE]
    assert merge.attrs["values"] == (1, 2, 3, 4)
