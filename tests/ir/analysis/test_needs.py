"""What an instance needs at most, against sums written out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sgc_ir.analysis.needs import Size, size_of
from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.graph import Node, Program, Ref
from sgc_ir.text import parse_program

ROLE, TOKEN = 24, 3  # characters of a turn's frame, and of a token that is said again


def bound(node: Node) -> int | None:
    most = node.attrs.get("max_tokens", 100)
    return None if isinstance(most, Ref) else most


def amount(text: str, **arguments: Any) -> tuple[int, int] | None:
    program: Program = parse_program(text)
    need = Needs(program, bound).graph(program.graph)
    found = need.amount({name: size_of(value) for name, value in arguments.items()})
    return None if found.open else (found.tokens, found.chars)


def test_texts_of_constants_arguments_and_gens() -> None:
    text = """
program main
graph main(name: str) {
  %0 = Argument name="name"
  %1 = RoleBegin role="user"
  %2 = Expr fn="concat" args=("Hello ", %0, "! ")
  %3 = Expr fn="text" args=(%2,) append=True
  %4 = Argument name="name" append=True
  %5 = Gen name="a" ordinal=0 max_tokens=5
  %6 = RoleEnd role="user"
  %7 = Expr fn="text" args=(%5,) append=True
  %8 = Expr fn="len" args=(%0,)
  %9 = Expr fn="text" args=(%8,) append=True
  %10 = Return value=None vars={}
}
"""
    assert amount(text, name="Sue") == (5, ROLE + len("Hello ! ") + 2 * 3 + 5 * TOKEN)


LOOP = """
program main
graph main(items: list[str], n: int) {
  %0 = Argument name="items"
  %1 = Argument name="n"
  %2 = Loop over=(%0,) item_params=("x",) index_param="i" captures={"all": %0, "n": %1} body b(x, i, all, n) {
    %0 = Argument name="x"
    %1 = Argument name="all"
    %2 = Argument name="i"
    %3 = Expr fn="getitem" args=(%1, %2)
    %4 = Expr fn="+" args=("item ", %3)
    %5 = Expr fn="text" args=(%4,) append=True
    %6 = Argument name="x" append=True
    %7 = Gen name="a" ordinal=%2 max_tokens=4
    %8 = Argument name="n"
    %9 = Expr fn="range" args=(%8,)
    %10 = Loop over=(%9,) item_params=("k",) index_param=None captures={} body c(k) {
      %0 = ConstantText text="again "
      %1 = Return value=None vars={}
    }
    %11 = Return value=None vars={}
  }
  %3 = Return value=None vars={}
}
"""  # noqa: E501


def test_loops_count_as_often_as_the_row_says() -> None:
    items, n = ["a", "bcd", "ef"], 2
    texts = 3 * (len("item ") + n * len("again ")) + 2 * sum(map(len, items))
    assert amount(LOOP, items=items, n=n) == (3 * 4, texts)
    assert amount(LOOP, items=[], n=n) == (0, 0)
    assert amount(LOOP, items=items, n=-1) == (3 * 4, texts - 3 * n * len("again "))
    assert amount(LOOP, items=items, n="?") is None


def test_what_only_the_run_knows_is_not_known() -> None:
    text = LOOP.replace("max_tokens=4", "max_tokens=%2")
    assert amount(text, items=["a"], n=1) is None


def test_sub_programs_count_with_what_they_are_given() -> None:
    text = """
program main
graph main(doc: str) {
  %0 = Argument name="doc"
  %1 = SubProgram callee="inner" args={"x": %0, "y": "const"} ordinal=0
  %2 = SubProgram callee="inner" args={"x": "a", "y": %0} ordinal=1
  %3 = Return value=None vars={}
}
graph inner(x: str, y: str) {
  %0 = Argument name="x" append=True
  %1 = Argument name="y"
  %2 = Gen name="a" ordinal=0 max_tokens=7
  %3 = Return value=None vars={}
}
"""
    assert amount(text, doc="four") == (14, 4 + 1)


def test_a_long_chain_of_sums() -> None:
    lines = ['  %0 = Argument name="x"', '  %1 = Expr fn="+" args=("a", %0)']
    lines += [f'  %{i} = Expr fn="+" args=(%{i - 1}, "b")' for i in range(2, 3000)]
    lines += ['  %3000 = Expr fn="text" args=(%2999,) append=True']
    lines += ["  %3001 = Return value=None vars={}"]
    text = "program main\ngraph main(x: str) {\n" + "\n".join(lines) + "\n}\n"
    assert amount(text, x="12") == (0, 1 + 2998 + 2)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("abc", Size(3, 3)),
        (["ab", "c", ["d"]], Size(3, 4)),
        ({"k": "ab"}, Size(1, 2)),
        (12, Size(None, 2, 12)),
        (True, Size()),
        (None, Size()),
    ],
)
def test_sizes(value: Any, size: Size) -> None:
    assert size_of(value) == size
    assert size_of(10**5000).chars == 18
