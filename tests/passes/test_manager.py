"""The list of passes: names, order, what is refused, and that a broken graph is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.executor import GraphBuilder, program_of

from sgc_ir.errors import CompileError, InputError
from sgc_ir.passes import fold, manager
from sgc_ir.passes.base import Context, Report
from sgc_ir.passes.manager import PASSES, check_names, defaults, run_passes


def test_passes_run_in_the_order_of_the_list_each_once() -> None:
    assert check_names(reversed([*PASSES, *PASSES])) == tuple(PASSES)
    _, reports = run_passes(program_of(GraphBuilder().done()))
    assert tuple(report.name for report in reports) == defaults()


def test_an_unknown_pass_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no pass 'nope'; the passes are rows, dead, fold, "):
        check_names(["fold", "nope"])


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_states_what_it_requires_and_why_it_is_right(name: str) -> None:
    module = manager._load(name)
    assert module.NAME == name
    assert "Requires:" in str(module.__doc__)
    assert PASSES[name].sense


@pytest.mark.parametrize("name", PASSES)
def test_nothing_to_do_gives_the_same_program(name: str) -> None:
    b = GraphBuilder()
    b.text("a")
    b.gen("g")
    program = program_of(b.done())
    found, reports = run_passes(program, [name], check=True)
    assert found is program
    assert str(reports[0]) == f"{name}: no changes"


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: object, context: Context) -> tuple[object, Report]:
        graph = replace(good.graph, nodes=good.graph.nodes[:-1])
        return replace(good, graphs={"main": graph}), Report("fold")

    good = program_of(GraphBuilder().done())
    monkeypatch.setattr(fold, "run", broken)
    with pytest.raises(CompileError, match="the passes fold broke the graph, report it"):
        run_passes(good, ["fold"], check=True)
