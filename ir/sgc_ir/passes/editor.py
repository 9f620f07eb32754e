"""Rebuilds a graph: nodes dropped, changed, put in between; ids and references follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sgc_ir.graph import Graph, Node, Ref, iter_refs, map_refs
from sgc_ir.ops import Op


class Editor:
    """Changes of one graph, collected in terms of its old ids; `done` gives the new graph.

    What is kept stays in order. A node that is dropped must not be referred to any more, unless
    `replace_value` said what stands in its place; a `stream` or `control` that was dropped needs
    the same of its nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._dropped: set[int] = set()
        self._values: dict[int, Any] = {}
        self._changed: dict[int, Node] = {}
        self._before: dict[int, list[Node]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was asked for."""
        return not (self._dropped or self._changed or self._before or self._values)

    def node(self, node_id: int) -> Node:
        """A node as it is by now, in old ids."""
        return self._changed.get(node_id, self.graph.nodes[node_id])

    def drop(self, node_id: int) -> None:
        """Leave a node out."""
        self._dropped.add(node_id)

    def replace_value(self, node_id: int, operand: Any) -> None:
        """Let `operand` (in old ids, of earlier nodes) stand wherever the node's value is read."""
        self._values[node_id] = operand

    def update(self, node_id: int, **fields: Any) -> None:
        """Change fields of a node; ids in them are old ones."""
        self._changed[node_id] = replace(self.node(node_id), **fields)

    def set_attrs(self, node_id: int, attrs: Mapping[str, Any]) -> None:
        """Set some attributes of a node; a value of None is set like any other."""
        self.update(node_id, attrs={**self.node(node_id).attrs, **attrs})

    def insert(self, before: int, op: Op, attrs: Mapping[str, Any], like: Node) -> None:
        """Put a node, to which nothing refers, in front of an old one, in the stream, under the
        control and with the source of `like`."""
        node = Node(-1, op, like.stream, attrs, like.source, like.control)
        self._before.setdefault(before, []).append(node)

    def done(self) -> Graph:
        """The new graph."""
        if self.is_empty:
            return self.graph
        values: dict[int, Any] = {}  # old id -> operand in new ids
        nodes: list[Node] = []
        for old in self.graph.nodes:
            for node in self._before.get(old.id, ()):
                nodes.append(self._moved(node, len(nodes), values))
            if old.id not in self._dropped:
                node = self._moved(self.node(old.id), len(nodes), values)
                values[old.id] = Ref(len(nodes))
                nodes.append(node)
            if old.id in self._values:
                values[old.id] = map_refs(self._values[old.id], lambda ref: values[ref.node])
        return replace(self.graph, nodes=tuple(nodes))

    def _moved(self, node: Node, node_id: int, values: Mapping[int, Any]) -> Node:
        """`node` with ids of the new graph."""
        control = node.control
        if control is not None:
            control = (_id(values[control[0]]), control[1])
        stream = node.stream if node.stream < 0 else _id(values[node.stream])
        attrs = node.attrs
        if "after" in attrs:
            attrs = self._after(attrs)
        if any(True for _ in node.refs()):
            attrs = {k: map_refs(v, lambda ref: values[ref.node]) for k, v in attrs.items()}
        return replace(node, id=node_id, stream=stream, control=control, attrs=attrs)

    def _after(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The attributes without dropped nodes in `after`; those that were before them step in."""
        found = dict.fromkeys(self._kept_before(attrs["after"]))
        rest = {k: v for k, v in attrs.items() if k != "after"}
        if not found:
            return rest
        refs = tuple(found)
        return {**rest, "after": refs if isinstance(attrs["after"], tuple) else refs[0]}

    def _kept_before(self, after: Any) -> Iterator[Ref]:
        for ref in iter_refs(after):
            if ref.node not in self._dropped:
                yield ref
            else:
                yield from self._kept_before(self.node(ref.node).attrs.get("after"))


def _id(operand: Any) -> int:
    assert isinstance(operand, Ref), "a stream or token was replaced by a value"
    return operand.node
