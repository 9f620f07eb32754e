"""Cells, and operands that hold them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sgc_runtime.executor.cell import Cell, as_cell, gather, resolve


def test_a_cell_keeps_the_first_value_and_calls_back_in_order() -> None:
    seen: list[str] = []
    cell = Cell()
    cell.then(lambda c: seen.append(f"a{c.value}"))
    cell.then(lambda c: seen.append(f"b{c.value}"))
    cell.set(1)
    cell.set(2)
    cell.fail(ValueError())
    cell.then(lambda c: seen.append(f"c{c.value}"))
    assert seen == ["a1", "b1", "c1"]
    assert cell.result() == 1


def test_callbacks_never_run_inside_each_other() -> None:
    """A chain of any length needs constant stack, and a callback ends before the next begins."""
    cells = [Cell() for _ in range(20_000)]
    for cell, following in pairwise(cells):
        cell.then(lambda c, following=following: following.set(c.value + 1))
    cells[0].set(0)
    assert cells[-1].value == 19_999


def test_resolve_fills_nested_containers_and_keeps_their_types() -> None:
    a, b = Cell(), Cell()
    seen: list[object] = []
    resolve([a, (1, b), {"k": [a]}, "s"], lambda value, error: seen.append((value, error)))
    b.set(2)
    assert seen == []
    a.set([5])
    assert seen == [([[5], (1, 2), {"k": [[5]]}, "s"], None)]
    plain = {"x": [1]}
    assert as_cell(plain).value is plain
    assert as_cell(a) is a


def test_resolve_gives_the_first_error_in_operand_order_after_all_are_done() -> None:
    a, b, c = Cell(), Cell(), Cell()
    seen: list[object] = []
    resolve((a, b, c), lambda value, error: seen.append(error))
    late, early = ValueError("b"), ValueError("c")
    c.fail(early)
    a.set(1)
    b.fail(late)
    assert seen == [late]


def test_gather_of_nothing_and_result_of_a_failed_cell() -> None:
    seen: list[object] = []
    gather([], seen.append)
    assert seen == [None]
    with pytest.raises(KeyError):
        Cell.failed(KeyError("x")).result()
    with pytest.raises(AssertionError):
        Cell().result()
