"""Constant folding: values as Python computes them, and what must stay where it stands."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import prompts, run_graph

from sgc.testing import ScriptedBackend
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.passes.manager import run_passes
from sgc_ir.text import parse_program


def fold(nodes: str, params: str = "x=1") -> Program:
    program = parse_program(f"program p\ngraph p({params}) {{\n{nodes}\n}}\n")
    return run_passes(program, ["fold"], check=True)[0]


@pytest.mark.parametrize(
    ("fn", "args", "value"),
    [
        ("+", '("a", "b")', "ab"),
        ("+", "(1, 2)", 3),
        ("concat", '("a", "", "b")', "ab"),
        (".upper", '("ab",)', "AB"),
        ("getitem", "([1, [2]], 1)", [2]),
        ("range", "(3,)", [0, 1, 2]),
        ("dict", '("k", 1)', {"k": 1}),
        ("tuple", "(1, 2)", (1, 2)),
        ("if", "(True, 1, 2)", 1),
        ("is", "(None, None)", True),
    ],
)
def test_constant_expression_becomes_its_value(fn: str, args: str, value: Any) -> None:
    program = fold(f'%0 = Expr fn="{fn}" args={args}\n%1 = Return value=[%0, %0] vars={{}}')
    assert [node.op for node in program.graph.nodes] == [Op.RETURN]
    assert program.graph.nodes[0].attrs["value"] == [value, value]
    assert run_graph(program).value == [value, value]


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        ("getitem", "([], 0)"),
        ("int", '("x",)'),
        ("/", "(1, 0)"),
        ("+", '("a", 1)'),
        ("typed", '("a", "int", "x")'),
        ("is", "([], [])"),  # two lists, or one, only the run tells
        (".keys", "({1: 2},)"),  # a view is no constant
        ("*", '("a", 1000000)'),  # long
        ("range", "(100000,)"),
    ],
)
def test_what_raises_or_is_no_short_constant_stays(fn: str, args: str) -> None:
    program = fold(f'%0 = Expr fn="{fn}" args={args}\n%1 = Return value=%0 vars={{}}')
    assert [node.op for node in program.graph.nodes] == [Op.EXPR, Op.RETURN]


def test_chain_is_folded_and_texts_become_constants() -> None:
    program = fold("""
        %0 = Expr fn="+" args=("a", "b")
        %1 = Expr fn=".upper" args=(%0,)
        %2 = Expr fn="text" args=(%1,) append=True
        %3 = Expr fn="text" args=(7,) append=True
        %4 = Gen name="g" ordinal=0
        %5 = Return value=None vars={}
    """)
    texts = [n.attrs["text"] for n in program.graph.nodes if n.op is Op.CONSTANT_TEXT]
    assert texts == ["AB", "7"]
    backend = ScriptedBackend(lambda prompt, params: "r")
    run_graph(program, backend)
    assert prompts(backend) == {"g0": "AB7"}


def test_neighbouring_parts_of_a_concatenation_are_joined() -> None:
    program = fold("""
        %0 = Argument name="x"
        %1 = Expr fn="concat" args=("a", "b", %0, "", "c")
        %2 = Return value=%1 vars={}
    """)
    concat = program.graph.nodes[1]
    assert concat.attrs["args"][0] == "ab"
    assert len(concat.attrs["args"]) == 3
    assert run_graph(program, args={"x": "-"}).value == "ab-c"


def test_a_captured_constant_keeps_its_node() -> None:
    program = fold("""
        %0 = Argument name="x"
        %1 = Expr fn="+" args=(1, 2)
        %2 = Loop over=(%0,) item_params=("i",) index_param=None captures={"c": %1} body b(i, c) {
          %0 = Argument name="i"
          %1 = Argument name="c"
          %2 = Expr fn="+" args=(%0, %1)
          %3 = Return value=%2 vars={}
        }
        %3 = Return value=[%2, %1] vars={}
    """)
    assert run_graph(program, args={"x": [1, 2]}).value == [[4, 5], 3]
