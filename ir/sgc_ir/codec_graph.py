"""Graphs node by node as msgpack data: arrays of fields in the order written here.

This is the form of bodies, and of all graphs in artefacts before format version 3.

    graph    [name, [param ...], [node ...], source]
    param    [name, annotation, default, keyword_only]
    node     [op, stream, [attribute, value ...], source, control, body]
    source   [file index, line];   control  nil or [node, arm];   body  nil or graph

Ids are positions and are not stored; attributes stand in the order of the op table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sgc_ir.codec_values import pack_value, unpack_value
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Graph, Node, Param, Source
from sgc_ir.limits import MAX_BODY_DEPTH
from sgc_ir.ops import ATTR_ORDER, Op


def pack_body(graph: Graph, files: dict[str, int], depth: int = 1) -> list[Any]:
    """msgpack data of a graph, node by node. Raises ArtifactError for what it cannot hold."""
    if depth > MAX_BODY_DEPTH:
        raise ArtifactError(f"graph {graph.name!r}: loops nest deeper than {MAX_BODY_DEPTH}")
    params = [pack_param(param) for param in graph.params]
    source = pack_source(graph.source, files)
    nodes = []
    for index, node in enumerate(graph.nodes):
        if node.id != index:
            raise ArtifactError(f"graph {graph.name!r}: node {node.id} stands at {index}")
        nodes.append(_pack_node(node, files, depth))
    return [graph.name, params, nodes, source]


def _pack_node(node: Node, files: dict[str, int], depth: int) -> list[Any]:
    attrs = [part for pair in packed_attrs(node) for part in pair]
    control = None if node.control is None else list(node.control)
    body = None if node.body is None else pack_body(node.body, files, depth + 1)
    return [str(node.op), node.stream, attrs, pack_source(node.source, files), control, body]


def packed_attrs(node: Node) -> Iterator[tuple[str, Any]]:
    """Attributes and their msgpack data, in the order of the op table."""
    order = ATTR_ORDER[node.op]
    for name in sorted(node.attrs, key=lambda n: (order.get(n, len(order)), n)):
        try:
            yield name, pack_value(node.attrs[name])
        except ArtifactError as error:
            raise ArtifactError(f"node {node.id} {node.op}, attribute {name}: {error}") from error


def pack_param(param: Param) -> list[Any]:
    return [param.name, param.annotation, pack_value(param.default), param.keyword_only]


def pack_source(source: Source, files: dict[str, int]) -> list[int]:
    return [files.setdefault(source.file, len(files)), source.line]


class Reader:
    """Reads graphs; equal sources share one object."""

    def __init__(self, files: list[str]) -> None:
        self.files = files
        self._sources: dict[tuple[int, int], Source] = {}

    def graph(self, data: Any, depth: int) -> Graph:
        if depth > MAX_BODY_DEPTH:
            raise ArtifactError("damaged artefact: loops nest too deeply")
        name, params, nodes, source = fields(data, 4, "graph")
        return Graph(
            name=text(name, "graph name"),
            params=tuple(self.param(item) for item in array(params, "parameters")),
            nodes=tuple(
                self._node(index, item, depth) for index, item in enumerate(array(nodes, "nodes"))
            ),
            source=self.source(source),
        )

    def param(self, data: Any) -> Param:
        name, annotation, default, keyword_only = fields(data, 4, "parameter")
        if type(keyword_only) is not bool:
            raise ArtifactError("damaged artefact: parameter")
        return Param(
            text(name, "parameter"), text(annotation, "type"), unpack_value(default), keyword_only
        )

    def _node(self, index: int, data: Any, depth: int) -> Node:
        op, stream, attrs, source, control, body = fields(data, 6, "node")
        try:
            kind = Op(op)
        except ValueError:
            raise ArtifactError(
                f"damaged artefact: node {index} is an unknown {op!r:.80}"
            ) from None
        return Node(
            id=index,
            op=kind,
            stream=integer(stream, "stream"),
            attrs=_unpack_attrs(index, kind, attrs),
            source=self.source(source),
            control=_unpack_control(control),
            body=None if body is None else self.graph(body, depth + 1),
        )

    def source(self, data: Any) -> Source:
        file, line = (integer(part, "source") for part in fields(data, 2, "source"))
        if not 0 <= file < len(self.files) or line < 0:
            raise ArtifactError("damaged artefact: source")
        if (file, line) not in self._sources:
            self._sources[file, line] = Source(self.files[file], line)
        return self._sources[file, line]


def _unpack_attrs(index: int, op: Op, data: Any) -> dict[str, Any]:
    items = array(data, "attributes")
    if len(items) % 2:
        raise ArtifactError("damaged artefact: attributes")
    attrs: dict[str, Any] = {}
    for at in range(0, len(items), 2):
        name = text(items[at], "attribute")
        if name in attrs or name not in ATTR_ORDER[op]:
            raise ArtifactError(f"damaged artefact: node {index} {op} has attribute {name!r:.80}")
        attrs[name] = unpack_value(items[at + 1])
    return attrs


def _unpack_control(data: Any) -> tuple[int, bool] | None:
    if data is None:
        return None
    node, arm = fields(data, 2, "control")
    if type(arm) is not bool:
        raise ArtifactError("damaged artefact: control")
    return integer(node, "control"), arm


def fields(data: Any, count: int, what: str) -> list[Any]:
    if type(data) is not list or len(data) != count:
        raise ArtifactError(f"damaged artefact: a {what} is not a list of {count} fields")
    return data


def array(data: Any, what: str) -> list[Any]:
    if type(data) is not list:
        raise ArtifactError(f"damaged artefact: {what}")
    return data


def text(data: Any, what: str) -> str:
    if type(data) is not str:
        raise ArtifactError(f"damaged artefact: {what}")
    return data


def texts(data: Any, what: str) -> list[str]:
    return [text(item, what) for item in array(data, what)]


def integer(data: Any, what: str) -> int:
    if type(data) is not int:
        raise ArtifactError(f"damaged artefact: {what}")
    return data
