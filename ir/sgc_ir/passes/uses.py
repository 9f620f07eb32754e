"""Who reads a node: by value, or as a node that has a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_ir.graph import Graph, Node, Ref, iter_refs, map_refs
from sgc_ir.ops import Op

# Attributes in which a constant may stand for a reference: the node is only asked for its value,
# and the verifier checks nothing of it that a run would answer otherwise (a width of 0, equal
# choices and the like fail the row, and no graph).
_BY_VALUE: dict[Op, tuple[str, ...]] = {
    Op.EXPR: ("args", "kwargs"),
    Op.CALL: ("args", "kwargs", "ordinal"),
    Op.SUB_PROGRAM: ("args", "ordinal"),
    Op.FIRST: ("count", "ordinal"),
    Op.GEN: ("ordinal",),
    Op.SELECT: ("ordinal",),
    Op.FORK: ("ordinal",),
    Op.BRANCH: ("cond",),
    Op.MERGE: ("values",),
    Op.LOOP: ("carried",),
    Op.RETURN: ("value", "vars", "kind"),
}


def _by_value(node: Node) -> tuple[str, ...]:
    """What of the node is read by value; a Branch on failures looks at the node itself."""
    return () if "on" in node.attrs else _BY_VALUE.get(node.op, ())


def named_nodes(graph: Graph, of_tokens: bool = True) -> set[int]:
    """Nodes that cannot be replaced by their value: writers, forks, what loops walk or capture,
    streams, parameters of calls, and `of_tokens` those under whose tokens others run."""
    found: set[int] = set()
    for node in graph.nodes:
        plain = _by_value(node)
        for name, value in node.attrs.items():
            if name not in plain and (of_tokens or name != "tokens"):
                found |= {ref.node for ref in iter_refs(value)}
        if of_tokens and node.control is not None:
            found.add(node.control[0])
        if node.stream >= 0:
            found.add(node.stream)
    return found


def takes_unset(node: Node, name: str) -> bool:
    """Whether an attribute may read what is unset; see `sgc_ir.verify_control`."""
    match node.op:
        case Op.MERGE | Op.LOOP:
            return name in ("values", "carried")
        case Op.RETURN:
            return name == "vars"
        case Op.EXPR:
            return name == "args" and node.attrs["fn"] in ("is_set", "default")
    return False


def with_values(node: Node, value: Callable[[Ref], Any]) -> dict[str, Any]:
    """The node's attributes with `value(ref)` for each reference that is read by value."""
    plain = _by_value(node)
    return {k: map_refs(v, value) if k in plain else v for k, v in node.attrs.items()}


def reader_counts(graph: Graph) -> dict[int, int]:
    """Node -> how many references to it there are."""
    counts: dict[int, int] = {}
    for node in graph.nodes:
        for ref in node.refs():
            counts[ref.node] = counts.get(ref.node, 0) + 1
    return counts
