"""Differences of programs: none under other node numbers, named by path where there are some."""

from __future__ import annotations

from dataclasses import replace

from sgc_ir.difference import differences
from sgc_ir.graph import Program
from sgc_ir.text import parse_program


def parse(nodes: str) -> Program:
    return parse_program(f"program p\ngraph p(x, y) {{\n{nodes}\n}}\n")


HEAD = '%0 = Argument name="x"\n%1 = Argument name="y"\n'


def test_numbers_of_nodes_do_not_matter() -> None:
    one = parse(HEAD + '%2 = Expr fn="+" args=(%0, %1)\n%3 = Return value=%2 vars={}')
    two = parse(
        '%0 = Argument name="y"\n%1 = Argument name="x"\n'
        '%2 = Expr fn="+" args=(%1, %0)\n%3 = Return value=%2 vars={}'
    )
    assert differences(one, one) == []
    moved = differences(one, two)  # the order of the arguments is a difference, the rest is none
    assert all("Expr" not in line for d in moved for line in (*d.removed, *d.added))


def test_another_operand_is_a_difference_also_where_the_line_looks_the_same() -> None:
    one = parse(HEAD + '%2 = Expr fn="+" args=(%0, %1)\n%3 = Return value=%2 vars={}')
    two = parse(HEAD + '%2 = Expr fn="-" args=(%0, %1)\n%3 = Return value=%2 vars={}')
    found = differences(one, two)
    assert [(d.where, d.path, len(d.removed), len(d.added)) for d in found] == [("p", "e2", 2, 2)]


def test_a_changed_call_is_shown_under_its_path() -> None:
    one = parse('%0 = Gen name="a" ordinal=0\n%1 = Return value=None vars={"a": %0}')
    two = parse('%0 = Gen name="a" ordinal=0 n=2\n%1 = Return value=None vars={"a": %0}')
    assert [str(d) for d in differences(one, two)] == [
        '@@ p: g0 @@\n- %0 = Gen name="a" ordinal=0  # g0\n+ %0 = Gen name="a" ordinal=0 n=2  # g0'
    ]


def test_bodies_graphs_and_facts_are_compared() -> None:
    loop = """
        %0 = Argument name="x"
        %1 = Loop over=(%0,) item_params=("i",) index_param=None captures={{}} body b(i) {{
          %0 = Argument name="i"
          %1 = Expr fn="{}" args=(%0, 1)
          %2 = Return value=%1 vars={{}}
        }}
        %2 = Return value=%1 vars={{}}
    """
    one, two = parse(loop.format("+")), parse(loop.format("-"))
    assert [d.where for d in differences(one, two)] == ["p, body of l1"]
    more = replace(two, graphs={**two.graphs, "q": one.graph}, outputs=("a",))
    found = differences(two, more)
    assert [(d.where, d.path) for d in found] == [("program", "outputs"), ("q", "parameters")]
