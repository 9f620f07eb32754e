"""Kinds of programs and calls between them: methods, lambdas, closures, recursion, sharing."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

import functools
from typing import Any

import pytest
from support.tracer import assert_equal

import sgc
from sgc.testing import ScriptedBackend
from sgc.trace.tracer import trace_program
from sgc_ir.graph import Program
from sgc_ir.ops import Op


def traced(program: sgc.Program, **static: Any) -> Program:
    return trace_program(program.spec, static)


class Judge:
    def __init__(self, name: str) -> None:
        self.name = name

    def judge(self, s, q):
        s += self.name + q + sgc.gen("v", max_tokens=1)
        return self.shown(s)

    def shown(self, s):
        return s["v"] + self.name


@sgc.function
def leaf(s, topic, k=1):
    s += f"About {topic}:" + sgc.gen("v", max_tokens=2)
    return s["v"].strip(), k


@sgc.function
def taker(s, items, h=None, d=None):
    s += "".join(items) + (h["v"] if h is not None else "") + sgc.gen("v", max_tokens=1)
    items = list(items)
    items.append("local")
    return [i.upper() for i in items], d


@sgc.function
def countdown(s, n):
    s += f"{n} "
    if n > 0:
        s += countdown(n - 1)["v"]
    s += sgc.gen("v", max_tokens=1)


def test_bound_method_as_a_program() -> None:
    assert_equal(sgc.function(Judge("jim").judge), {"q": "a"})


def test_lambda_as_a_program() -> None:
    program = sgc.function(lambda s, q: s.extend("hi " + q + sgc.gen("v", max_tokens=1)))
    assert_equal(program, {"q": "a"})


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    # fmt: off
    a, b = sgc.function(lambda s, q: s.extend("one " + q)), sgc.function(lambda s, q: s.extend("two " + q))  # noqa: E501
    # fmt: on
    assert a.run("x", mode="compiled").text() == "one x"
    assert b.run("x", mode="compiled").text() == "two x"


def test_closures_of_one_code_object_keep_their_own_cells() -> None:
    def make(prefix: str) -> sgc.Program:
        def program(s, q):
            s += prefix + q

        return sgc.function(program)

    assert make("A").run("1", mode="compiled").text() == "A1"
    assert make("B").run("2", mode="compiled").text() == "B2"


def test_cell_that_changes_between_compilations_is_read_anew() -> None:
    word = "old"

    @sgc.function
    def program(s):
        s += word

    assert program.compile().run().text() == "old"
    word = "new"
    assert program.compile().run().text() == "new"


def test_program_behind_a_decorator() -> None:
    def wrapped(fn):
        @functools.wraps(fn)
        def inner(s, q):
            s += "wrapped "
            return fn(s, q)

        return inner

    @sgc.function
    @wrapped
    def program(s, q):
        s += q + sgc.gen("v", max_tokens=1)
        return q

    assert_equal(program, {"q": "x"})


def test_one_function_decorated_twice() -> None:
    def program(s, q):
        s += q

    first, second = sgc.function(program), sgc.function(program)
    assert first.run("a", mode="compiled").text() == second.run("a", mode="compiled").text() == "a"


def test_arguments_of_sub_programs_keep_their_structure() -> None:
    @sgc.function
    def program(s, q: str, xs: list[str]):
        items = [q, "x"]
        handle = leaf(q)
        a = taker(items, h=handle)
        b = taker([*items, q], d={"q": q, "n": 1})
        c = taker(["p"], d=(1, q))
        s += "".join(items) + a["v"] + b["v"] + c["v"] + sgc.gen("e", max_tokens=1)
        return items, a.value, b.value, c.value

    assert_equal(program, {"q": "z", "xs": ["m"]})


def test_sub_program_graphs_are_shared_by_function_constants_and_forms() -> None:
    @sgc.function
    def program(s, q, r):
        for x in (q, r, q):
            leaf(x)
        leaf("constant")
        leaf("constant")
        leaf(q, k=2)

    graphs = traced(program).graphs
    assert set(graphs) == {"program", "leaf", "leaf.2", "leaf.3"}
    assert [p.name for p in graphs["leaf"].params] == ["topic"]
    assert graphs["leaf.2"].params == ()


def test_recursion_of_static_depth_costs_one_graph_a_level() -> None:
    @sgc.function
    def program(s):
        a, b = countdown(5), countdown(5)
        s += a["v"] + b["v"]

    assert len(traced(program).graphs) == 1 + 6
    assert_equal(program)


def test_sub_program_called_in_an_unrolled_loop_counts_its_calls() -> None:
    @sgc.function
    def program(s, q):
        for i in range(3):
            leaf(q + str(i))

    nodes = traced(program).graph.nodes
    assert [n.attrs["ordinal"] for n in nodes if n.op is Op.SUB_PROGRAM] == [0, 1, 2]


def test_bound_arguments_are_constants_and_fold_branches() -> None:
    @sgc.function
    def program(s, flag: bool, q):
        if flag:
            s += "yes " + q
        else:
            s += "no " + q

    graph = traced(program.bind(flag=True))
    assert [p.name for p in graph.graph.params] == ["q"]
    assert graph.notes["bound"] == ["flag"]
    assert program.bind(flag=False).run(q="x", mode="compiled").text() == "no x"


def test_defaults_annotations_and_keyword_only_parameters_are_kept() -> None:
    @sgc.function
    def program(s, a: str, b: list[int] = (1, 2), *, c: float = 0.5, d=None):
        s += f"{a}{b}{c}{d}"

    params = traced(program).graph.params
    assert [(p.name, p.annotation, p.keyword_only) for p in params] == [
        ("a", "str", False),
        ("b", "list[int]", False),
        ("c", "float", True),
        ("d", "", True),
    ]
    assert [p.default for p in params[1:]] == [(1, 2), 0.5, None]


def test_declared_outputs_and_tools_are_listed() -> None:
    @sgc.tool(effect="repeatable")
    def programs_look(x):
        return x

    @sgc.function(outputs=["v"])
    def program(s, q):
        sgc.call(programs_look, q)
        s += sgc.gen("v")

    graph = traced(program)
    assert graph.outputs == ("v",)
    assert graph.tools == {"programs_look": "repeatable"}


def test_compiled_twice_and_run_at_once() -> None:
    @sgc.function
    def program(s, q):
        s += q + sgc.gen("v", max_tokens=1)

    first, second = program.compile(), program.compile()
    assert first.graph == second.graph


def test_symbol_kept_from_an_earlier_compilation_is_refused() -> None:
    kept: list[Any] = []

    class Keeper:
        def keep(self, x):
            object.__setattr__(self, "kept", x)

    keeper = Keeper()
    first = sgc.function(lambda s, q: kept_in(keeper, q))
    with pytest.raises(sgc.CompileError, match="changes a Keeper from outside"):
        first.compile()
    assert kept == []
    assert not hasattr(keeper, "kept")


def kept_in(keeper: Any, x: Any) -> None:
    keeper.kept = x


@sgc.function
def typed(s, topic: str, number: int = 0, items: list[int] = ()):
    s += topic + str(number) + sgc.gen("v", max_tokens=1)


def test_types_of_sub_program_arguments_are_checked_when_they_are_known() -> None:
    @sgc.function
    def program(s, d):
        s += typed(d["t"], number=d["n"])["v"]

    assert_equal(program, *({"d": d} for d in ({"t": "x", "n": 1}, {"t": 5, "n": 1})))
    with pytest.raises(sgc.InputError, match="typed: argument number: expected int, got str"):
        program.run({"t": "x", "n": "y"}, mode="compiled")


def test_types_of_inlined_arguments_are_checked_when_they_are_known() -> None:
    @sgc.function
    def program(s, d):
        s.call(typed, d["t"], items=[1, d["n"]])

    assert_equal(program, {"d": {"t": "x", "n": 1}}, {"d": {"t": "x", "n": "y"}})


def test_types_of_constant_arguments_are_checked_while_tracing() -> None:
    @sgc.function
    def program(s):
        typed("x", number=None)

    with pytest.raises(sgc.CompileError, match="argument number: expected int"):
        program.compile()


@pytest.mark.parametrize("mode", ["gather", "append"])
def test_a_returned_variable_of_joined_branches_keeps_its_metadata(mode: str) -> None:
    @sgc.function
    def nested(s):
        forks = s.fork(2)
        for f in forks:
            inner = f.fork(2)
            for g in inner:
                g += "x" + sgc.gen("word", max_tokens=1)
                g.set("known", [g["word"]])
            inner.join(mode)
            f += sgc.gen("last", max_tokens=1)
        forks.join()

    def found(how: str) -> list[Any]:
        state = nested.run(backend=ScriptedBackend(lambda prompt, params: "w"), mode=how)
        return [(name, value, state.meta(name)) for name, value in state.vars.items()]

    assert found("compiled") == found("interpreted")
    assert all(meta for name, _, meta in found("compiled") if name == "last")
