"""Programs, graphs and nodes as msgpack data: arrays of fields in the order written here.

    program  [main, [graph ...], outputs, [tool, effect ...], notes, [file ...]]
    graph    [name, [param ...], [node ...], source]
    param    [name, annotation, default, keyword_only]
    node     [op, stream, [attribute, value ...], source, control, body]
    source   [file index, line];   control  nil or [node, arm];   body  nil or graph

Ids are positions and are not stored; attributes stand in the order of the op table.
"""

from __future__ import annotations

from typing import Any

from sgc_ir.codec_values import pack_value, unpack_value
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Graph, Node, Param, Program, Source
from sgc_ir.limits import MAX_BODY_DEPTH
from sgc_ir.ops import ATTR_ORDER, Op


def pack_program(program: Program) -> list[Any]:
    """msgpack data of a program. Raises ArtifactError for what the format cannot hold."""
    files: dict[str, int] = {}
    graphs = []
    for name in sorted(program.graphs):
        if program.graphs[name].name != name:
            raise ArtifactError(f"graph {program.graphs[name].name!r} stands under {name!r}")
        graphs.append(_pack_graph(program.graphs[name], files, 0))
    tools = [text for item in sorted(program.tools.items()) for text in item]
    outputs = None if program.outputs is None else list(program.outputs)
    notes = pack_value(dict(program.notes))
    return [program.main, graphs, outputs, tools, notes, list(files)]


def _pack_graph(graph: Graph, files: dict[str, int], depth: int) -> list[Any]:
    if depth > MAX_BODY_DEPTH:
        raise ArtifactError(f"graph {graph.name!r}: loops nest deeper than {MAX_BODY_DEPTH}")
    params = [[p.name, p.annotation, pack_value(p.default), p.keyword_only] for p in graph.params]
    source = _pack_source(graph.source, files)
    nodes = []
    for index, node in enumerate(graph.nodes):
        if node.id != index:
            raise ArtifactError(f"graph {graph.name!r}: node {node.id} stands at {index}")
        nodes.append(_pack_node(node, files, depth))
    return [graph.name, params, nodes, source]


def _pack_node(node: Node, files: dict[str, int], depth: int) -> list[Any]:
    order = ATTR_ORDER[node.op]
    attrs: list[Any] = []
    for name in sorted(node.attrs, key=lambda n: (order.get(n, len(order)), n)):
        try:
            attrs += [name, pack_value(node.attrs[name])]
        except ArtifactError as error:
            raise ArtifactError(f"node {node.id} {node.op}, attribute {name}: {error}") from error
    control = None if node.control is None else list(node.control)
    body = None if node.body is None else _pack_graph(node.body, files, depth + 1)
    return [str(node.op), node.stream, attrs, _pack_source(node.source, files), control, body]


def _pack_source(source: Source, files: dict[str, int]) -> list[int]:
    return [files.setdefault(source.file, len(files)), source.line]


def unpack_program(data: Any) -> Program:
    """The program of msgpack data; the shape is checked, not the meaning. Raises ArtifactError."""
    main, graphs, outputs, tools, notes, files = _fields(data, 6, "program")
    reader = _Reader(_texts(files, "files"))
    unpacked = [reader.graph(item, 0) for item in _array(graphs, "graphs")]
    by_name = {graph.name: graph for graph in unpacked}
    if len(by_name) != len(unpacked):
        raise ArtifactError("damaged artefact: two graphs of one name")
    pairs = _texts(tools, "tools")
    unpacked_notes = unpack_value(notes)
    if len(pairs) % 2 or type(unpacked_notes) is not dict:
        raise ArtifactError("damaged artefact: tools or notes")
    return Program(
        main=_text(main, "main graph"),
        graphs=by_name,
        outputs=None if outputs is None else tuple(_texts(outputs, "outputs")),
        tools=dict(zip(pairs[::2], pairs[1::2], strict=True)),
        notes=unpacked_notes,
    )


class _Reader:
    """Reads graphs; equal sources share one object."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._sources: dict[tuple[int, int], Source] = {}

    def graph(self, data: Any, depth: int) -> Graph:
        if depth > MAX_BODY_DEPTH:
            raise ArtifactError("damaged artefact: loops nest too deeply")
        name, params, nodes, source = _fields(data, 4, "graph")
        return Graph(
            name=_text(name, "graph name"),
            params=tuple(self._param(item) for item in _array(params, "parameters")),
            nodes=tuple(
                self._node(index, item, depth) for index, item in enumerate(_array(nodes, "nodes"))
            ),
            source=self._source(source),
        )

    def _param(self, data: Any) -> Param:
        name, annotation, default, keyword_only = _fields(data, 4, "parameter")
        if type(keyword_only) is not bool:
            raise ArtifactError("damaged artefact: parameter")
        return Param(
            _text(name, "parameter"), _text(annotation, "type"), unpack_value(default), keyword_only
        )

    def _node(self, index: int, data: Any, depth: int) -> Node:
        op, stream, attrs, source, control, body = _fields(data, 6, "node")
        try:
            kind = Op(op)
        except ValueError:
            raise ArtifactError(
                f"damaged artefact: node {index} is an unknown {op!r:.80}"
            ) from None
        return Node(
            id=index,
            op=kind,
            stream=_integer(stream, "stream"),
            attrs=_unpack_attrs(index, kind, attrs),
            source=self._source(source),
            control=_unpack_control(control),
            body=None if body is None else self.graph(body, depth + 1),
        )

    def _source(self, data: Any) -> Source:
        file, line = (_integer(part, "source") for part in _fields(data, 2, "source"))
        if not 0 <= file < len(self._files) or line < 0:
            raise ArtifactError("damaged artefact: source")
        if (file, line) not in self._sources:
            self._sources[file, line] = Source(self._files[file], line)
        return self._sources[file, line]


def _unpack_attrs(index: int, op: Op, data: Any) -> dict[str, Any]:
    items = _array(data, "attributes")
    if len(items) % 2:
        raise ArtifactError("damaged artefact: attributes")
    attrs: dict[str, Any] = {}
    for at in range(0, len(items), 2):
        name = _text(items[at], "attribute")
        if name in attrs or name not in ATTR_ORDER[op]:
            raise ArtifactError(f"damaged artefact: node {index} {op} has attribute {name!r:.80}")
        attrs[name] = unpack_value(items[at + 1])
    return attrs


def _unpack_control(data: Any) -> tuple[int, bool] | None:
    if data is None:
        return None
    node, arm = _fields(data, 2, "control")
    if type(arm) is not bool:
        raise ArtifactError("damaged artefact: control")
    return _integer(node, "control"), arm


def _fields(data: Any, count: int, what: str) -> list[Any]:
    if type(data) is not list or len(data) != count:
        raise ArtifactError(f"damaged artefact: a {what} is not a list of {count} fields")
    return data


def _array(data: Any, what: str) -> list[Any]:
    if type(data) is not list:
        raise ArtifactError(f"damaged artefact: {what}")
    return data


def _text(data: Any, what: str) -> str:
    if type(data) is not str:
        raise ArtifactError(f"damaged artefact: {what}")
    return data


def _texts(data: Any, what: str) -> list[str]:
    return [_text(item, what) for item in _array(data, what)]


def _integer(data: Any, what: str) -> int:
    if type(data) is not int:
        raise ArtifactError(f"damaged artefact: {what}")
    return data
