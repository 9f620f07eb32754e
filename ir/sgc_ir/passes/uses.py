"""Who reads a node: by value, or as a node that has a name of its own."""

from __future__ import annotations

from sgc_ir.graph import Graph, iter_refs

# Attributes that mean the node itself and not only its value.
_NAMING = ("of", "fork", "after", "over", "captures", "tokens")


def named_nodes(graph: Graph) -> set[int]:
    """Nodes that cannot be replaced by their value: writers, forks, what loops walk or capture,
    tokens, streams, and those that nodes run under."""
    found: set[int] = set()
    for node in graph.nodes:
        for name in _NAMING:
            if name in node.attrs:
                found |= {ref.node for ref in iter_refs(node.attrs[name])}
        if node.control is not None:
            found.add(node.control[0])
        if node.stream >= 0:
            found.add(node.stream)
    return found


def reader_counts(graph: Graph) -> dict[int, int]:
    """Node -> how many references to it there are."""
    counts: dict[int, int] = {}
    for node in graph.nodes:
        for ref in node.refs():
            counts[ref.node] = counts.get(ref.node, 0) + 1
    return counts
