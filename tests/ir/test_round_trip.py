"""Both written forms give back exactly the program that went in."""

from __future__ import annotations

import json
import pickle
from collections import Counter

from hypothesis import HealthCheck, given, seed, settings
from ir.exact import all_nodes, frozen
from ir.samples import essay_judge, static_judge
from ir.strategies import programs

from sgc_ir.codec import decode, encode
from sgc_ir.graph import UNSET, Graph, Node, Program
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES
from sgc_ir.render import render
from sgc_ir.text import parse_program, print_program
from sgc_ir.verify import verify

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def test_random_programs_survive_both_forms_and_show_every_kind() -> None:
    kinds: Counter[Op] = Counter()
    params: Counter[str] = Counter()
    depths: set[int] = set()

    def complete() -> bool:
        return set(kinds) == set(Op) and set(params) == set(PARAM_NAMES) and {0, 1, 2} <= depths

    @settings(max_examples=50, deadline=None, suppress_health_check=SLOW, database=None)
    @given(programs())
    def check(program: Program) -> None:
        for node in all_nodes(program):
            kinds[node.op] += 1
            params.update(name for name in node.attrs if name in PARAM_NAMES)
        depths.update(_depth(graph) for graph in program.graphs.values())
        verify(program, syntax=False)
        data = encode(program)
        assert frozen(decode(data)) == frozen(program)
        assert encode(decode(data)) == data
        text = print_program(program)
        assert frozen(parse_program(text, check=False)) == frozen(program)
        assert print_program(decode(data)) == text

    for number in range(5):  # deep nests are rare: what one round lacks the next may have
        seed(number)(check)()
        if complete():
            break
    assert set(kinds) == set(Op)
    assert set(params) == set(PARAM_NAMES)
    assert {0, 1, 2} <= depths


def _depth(graph: Graph) -> int:
    bodies = [node.body for node in graph.nodes if node.body is not None]
    return max((1 + _depth(body) for body in bodies), default=0)


def test_valid_programs_pass_the_whole_verifier() -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=SLOW, derandomize=True)
    @given(programs())
    def check(program: Program) -> None:
        verify(program)

    check()


def test_order_of_attributes_graphs_and_tools_does_not_change_the_bytes() -> None:
    program = static_judge()
    turned = Program(
        program.main,
        {name: _turned(program.graphs[name]) for name in reversed(list(program.graphs))},
        program.outputs,
        dict(reversed(program.tools.items())),
        program.notes,
    )
    assert encode(turned) == encode(program)
    assert encode(turned) == encode(program)
    assert print_program(turned) == print_program(program)


def _turned(graph: Graph) -> Graph:
    nodes = tuple(
        Node(
            node.id,
            node.op,
            node.stream,
            dict(reversed(list(node.attrs.items()))),
            node.source,
            node.control,
            node.body,
        )
        for node in graph.nodes
    )
    return Graph(graph.name, graph.params, nodes, graph.source)


def test_programs_that_differ_have_different_bytes() -> None:
    variants = [essay_judge()] + [
        Program("judge", essay_judge().graphs, notes={"version": value})
        for value in (1, True, 1.0, 0.0, -0.0, "1", b"1", [1], (1,), {1: 2, 3: 4}, {3: 4, 1: 2})
    ]
    assert len({encode(program) for program in variants}) == len(variants)
    assert len({encode(program) for program in variants}) == len(variants)


CONTROL = """
program main

graph main() {
  %0 = Select name="v" ordinal=0 choices=("a", "b")
  %1 = Expr fn="==" args=(%0, "a")
  %2 = Branch cond=%1
  %3 = Gen if %2 name="w" ordinal=1
  %4 = Expr if not %2 fn="fail" args=("ValueError", %0)
  %5 = Merge values=(%3,) tokens=((%2, True),)
  %6 = Merge values=(UNSET, %3) tokens=((%2, False), (%2, True))
  %7 = Loop if %5 over=() item_params=() index_param=None captures={} max=4 carried={"w": UNSET} body b(w) {
    %0 = Argument name="w"
    %1 = Return value=None vars={"w": %0} kind=1
  }
  %8 = Variable if %5 name="kind" of=%7 field="kind"
  %9 = Return if %5 value=%8 vars={"w": %6}
}
"""  # noqa: E501


def test_control_flow_survives_both_forms() -> None:
    program = parse_program(CONTROL)
    text = print_program(program)
    lines = [line.split("  #")[0].strip() for line in text.splitlines()]
    assert [line for line in lines if line] == [s.strip() for s in CONTROL.splitlines() if s]
    assert decode(encode(program)) == program
    assert decode(encode(program)).graph.nodes[6].attrs["values"][0] is UNSET
    copied = pickle.loads(pickle.dumps(program))
    assert copied.graph.nodes[7].attrs["carried"]["w"] is UNSET
    data = json.loads(render(program, "json"))["graphs"][0]["nodes"]
    assert data[3]["control"] == {"node": 2, "arm": True}
    assert data[6]["attrs"]["values"] == {"tuple": [{"unset": True}, {"ref": 3}]}
