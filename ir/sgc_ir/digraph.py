"""networkx views of a graph, for analyses."""

from __future__ import annotations

import networkx as nx

from sgc_ir.graph import Graph, Program, forks_of
from sgc_ir.ops import Op
from sgc_ir.paths import node_paths


def digraph(graph: Graph) -> nx.DiGraph[int]:
    """The nodes of `graph` by id, with edges from what must come before.

    Node attributes: `op`, `stream`, `path`, `node`. Edge attributes, at least one of them true:
    `order` (the two follow each other in one stream, or the first opens the second's stream),
    `data` (the second reads the first), `after` (program order of tools and loops), `control`.
    Bodies are not entered. The result has no circle, since operands are earlier nodes.
    """
    view: nx.DiGraph[int] = nx.DiGraph()
    paths = node_paths(graph)
    last: dict[int, int] = {}
    for node in graph.nodes:
        view.add_node(node.id, op=node.op, stream=node.stream, path=paths[node.id], node=node)
        if node.appends:
            before = last.get(node.stream, node.stream)
            if before >= 0:
                _mark(view, before, node.id, "order")
            last[node.stream] = node.id
        after = node.attrs.get("after")
        for ref in node.refs():
            _mark(view, ref.node, node.id, "after" if ref is after else "data")
        if node.op is Op.GET_FORK_ITEM:
            for fork in forks_of(node):
                _mark(view, fork, node.id, "order")
        if node.control is not None:
            _mark(view, node.control[0], node.id, "control")
    return view


def call_graph(program: Program) -> nx.DiGraph[str]:
    """Graph names, with an edge from each caller to the programs that it or its loops call."""
    view: nx.DiGraph[str] = nx.DiGraph()
    for name, graph in program.graphs.items():
        view.add_node(name)
        for node in graph.walk():
            if node.op is Op.SUB_PROGRAM:
                view.add_edge(name, node.attrs["callee"])
    return view


def _mark(view: nx.DiGraph[int], before: int, after: int, kind: str) -> None:
    if view.has_edge(before, after):
        view.edges[before, after][kind] = True
    else:
        flags = dict.fromkeys(("order", "data", "after", "control"), False)
        view.add_edge(before, after, **(flags | {kind: True}))
