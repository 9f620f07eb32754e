"""Static paths, and the networkx views that analyses use."""

from __future__ import annotations

import itertools

import networkx as nx
from hypothesis import HealthCheck, given, settings
from ir.samples import Builder, essay_judge, static_judge
from ir.strategies import programs

from sgc_ir.digraph import call_graph, digraph
from sgc_ir.graph import Graph, Node, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.paths import captured_forks, is_static, node_paths, stream_paths


def test_paths_of_static_streams() -> None:
    graph = static_judge().graph
    paths = node_paths(graph)
    by_kind = {node.id: (node.op, paths[node.id]) for node in graph.nodes}
    assert [p for op, p in by_kind.values() if op is Op.GEN] == ["f0[0]/g0", "f0[1]/g0", "f0[2]/g0"]
    assert [p for op, p in by_kind.values() if op is Op.GET_FORK_ITEM] == [
        "f0[0]",
        "f0[1]",
        "f0[2]",
    ]
    assert [p for op, p in by_kind.values() if op in (Op.CALL, Op.SELECT)] == ["g0", "g1"]
    assert [p for op, p in by_kind.values() if op is Op.SUB_PROGRAM] == ["c0"]
    assert paths[0] == "r0"
    assert paths[12] == "f0[0]/t12"
    assert len(set(paths.values())) == len(graph.nodes)


def test_paths_of_runtime_streams_go_through_captures() -> None:
    graph = essay_judge().graph
    loop = next(node for node in graph.nodes if node.op is Op.LOOP)
    assert loop.body is not None
    forks = captured_forks(graph, loop, stream_paths(graph), {})
    assert forks == {"forks": "f0"}
    assert stream_paths(loop.body, "", forks)[3] == "f0[*]"
    assert stream_paths(loop.body)[3] == "forks[*]"
    assert not is_static("f0[*]/g0")
    assert is_static("f0[0]/g0")


def test_paths_of_nested_streams_and_runtime_ordinals() -> None:
    b = Builder()
    outer = b.add(Op.FORK, ordinal=0, width=1)
    branch = b.add(Op.GET_FORK_ITEM, fork=outer, index=0)
    x = b.add(Op.ARGUMENT, name="x")
    inner = b.add(Op.FORK, branch, ordinal=x, width=1)
    leaf = b.add(Op.GET_FORK_ITEM, fork=inner, index=x)
    gen = b.add(Op.GEN, leaf, name="a", ordinal=2)
    paths = node_paths(b.graph("m"))
    assert paths[gen.node] == "f0[0]/f*[*]/g2"
    assert paths[x.node] == "a2"


def test_broken_references_are_shown_not_raised() -> None:
    graph = Graph("m", nodes=(Node(0, Op.GET_FORK_ITEM, 5, {"fork": Ref(9), "index": 0}),))
    assert node_paths(graph)[0] == "?[0]"


def test_digraph_of_a_fork_and_join() -> None:
    graph = static_judge().graph
    view = digraph(graph)
    fork, join = 7, 29
    assert view.edges[6, fork]["order"]
    assert view.edges[fork, 8]["order"]
    assert view.edges[8, 11]["order"]
    assert not view.has_edge(fork, 11)
    assert view.edges[15, join]["data"]
    assert not view.edges[15, join]["order"]
    assert view.edges[fork, join]["order"]
    assert view.nodes[15]["path"] == "f0[0]/g0"
    assert view.nodes[15]["node"] is graph.nodes[15]
    assert nx.has_path(view, 15, 40)
    assert not nx.has_path(view, 15, 21)


def test_call_graph() -> None:
    assert list(call_graph(static_judge()).edges) == [("judge", "summary")]


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs())
def test_views_have_no_circles_and_streams_are_chains(program: Program) -> None:
    assert nx.is_directed_acyclic_graph(call_graph(program))
    for graph in program.graphs.values():
        view = digraph(graph)
        assert set(view.nodes) == {node.id for node in graph.nodes}
        assert nx.is_directed_acyclic_graph(view)
        for stream in {node.stream for node in graph.nodes}:
            members = [n.id for n in graph.nodes if n.stream == stream and n.appends]
            for before, after in itertools.pairwise(members):
                assert view.edges[before, after]["order"]
