"""A graph as shapes and columns, the form in which artefacts hold their nodes.

Nodes that are equal but for what they refer to, a text or a number share one *shape*: op and
attributes, with holes. What fills the holes stands in columns, one value a node of the shape, in
node order. So a reader unpacks and checks a shape once, and makes nodes when they are asked for.

    graph    [name, [param ...], source, kinds, [shape ...]];  kinds: the shape of each node
    shape    [op, [attribute, value ...], body, streams, sources, controls, [column ...]]
    streams  id of the stream plus 1;  sources  place in the program's table of sources
    controls 0, or 2 * node + arm + 1;  column  node, place in the table of texts, or number

`kinds` and each column are little-endian 32-bit integers, one a node; streams, sources and
controls likewise, or one integer where it is the same for all. Values are as in
`sgc_ir.codec_values`, a hole being `[REF_HOLE]`, `[TEXT_HOLE]` or `[NUMBER_HOLE]`; a container of
references alone may be `[REFS, LIST or TUPLE, column]` or, a dict, `[NAMED_REFS, column of keys,
column]`. A body is a graph as in `sgc_ir.codec_graph`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from sgc_ir.codec_graph import pack_body, pack_param, pack_source, packed_attrs
from sgc_ir.codec_values import DICT, LIST, REF, TUPLE
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Graph, Node, Source
from sgc_ir.ops import OPS, Op

HOLES = REF_HOLE, TEXT_HOLE, NUMBER_HOLE = 7, 8, 9
REFS, NAMED_REFS = 10, 11
_MANY = 8  # references in a container from which on it is a column
_LIMIT = 2**32

# Where a text or number may be a hole: no rule looks at more than its kind there.
TEXT_PLACES = frozenset(
    [
        (Op.CONSTANT_TEXT, "text"),
        (Op.GEN, "name"),
        (Op.SELECT, "name"),
        (Op.VARIABLE, "name"),
        (Op.EXPR, "args"),
    ]
)
NUMBER_PLACES = ("ordinal", "index")


def is_lean(attrs: Sequence[Any]) -> bool:
    """Whether a shape may have several nodes: what reading them takes is then bounded by the size
    of the file. Its own text is short, and what each node has of its own stands in columns."""
    holes, own, weight = 0, len(attrs) // 2, 0
    waiting = list(attrs[1::2])
    while waiting:
        value = waiting.pop()
        weight += 1 + (len(value) // 8 if isinstance(value, str | bytes) else 0)
        if is_hole(value):
            holes += 1
        elif type(value) is list:
            own += len(value) if holds_hole(value) else 0
            waiting += value
    return weight <= 128 + 4 * holes and (holes == 0 or own <= 12 + 4 * holes)


def is_hole(value: Any) -> bool:
    return type(value) is list and len(value) == 1 and type(value[0]) is int and value[0] in HOLES


def is_column(value: Any) -> bool:
    """Whether a packed value is a container of references alone, as a column."""
    return (
        type(value) is list
        and len(value) == 3
        and type(value[0]) is int
        and value[0] in (REFS, NAMED_REFS)
    )


def holds_hole(value: Any) -> bool:
    """Whether a packed value is, or has in it, a hole or a column."""
    if type(value) is not list:
        return False
    if is_hole(value) or is_column(value):
        return True
    return any(holds_hole(part) for part in value if type(part) is list)


@dataclass(slots=True)
class Tables:
    """What graphs of a program share: names of files, sources, texts; each in order of use."""

    files: dict[str, int] = field(default_factory=dict)
    sources: dict[tuple[int, int], int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def source(self, source: Source) -> int:
        file, line = pack_source(source, self.files)
        return self.sources.setdefault((file, line), len(self.sources))

    def packed(self) -> list[Any]:
        lengths = column([len(text) for text in self.texts])
        texts = "".join(self.texts).encode("utf-8", "surrogatepass")
        files, lines = zip(*self.sources, strict=True) if self.sources else ((), ())
        return [list(self.files), [column(files), column(lines)], [lengths, texts]]


@dataclass(slots=True)
class _Group:
    """Nodes of one shape: `fills` has what fills the holes, a tuple a node."""

    attrs: list[Any]
    nodes: list[Node] = field(default_factory=list)
    fills: list[tuple[Any, ...]] = field(default_factory=list)


def pack_graph(graph: Graph, tables: Tables) -> list[Any]:
    """msgpack data of a graph. Raises ArtifactError for what the format cannot hold."""
    groups: dict[bytes, _Group] = {}
    kinds: list[int] = []
    places: dict[bytes, int] = {}
    for index, node in enumerate(graph.nodes):
        if node.id != index:
            raise ArtifactError(f"graph {graph.name!r}: node {node.id} stands at {index}")
        key, attrs, fills = _shape_of(node, tables)
        group = groups.setdefault(key, _Group(attrs))
        kinds.append(places.setdefault(key, len(places)))
        group.nodes.append(node)
        group.fills.append(fills)
    params = [pack_param(param) for param in graph.params]
    shapes = [_pack_group(group, tables) for group in groups.values()]
    return [graph.name, params, pack_source(graph.source, tables.files), column(kinds), shapes]


def _shape_of(node: Node, tables: Tables) -> tuple[bytes, list[Any], tuple[Any, ...]]:
    """Key and attributes of a node's shape, and what fills its holes."""
    fills: list[Any] = []
    attrs: list[Any] = []
    if node.op not in OPS:
        raise ArtifactError(f"node {node.id} is of no kind of node: {node.op!r:.60}")
    owns_body = OPS[node.op].owns_body
    plain = list(packed_attrs(node))
    for name, value in plain:
        attrs += [name, value if owns_body else _with_holes(node.op, name, value, fills)]
    alone = owns_body or not is_lean(attrs)
    if alone:
        attrs, fills = [part for pair in plain for part in pair], []
    content = [str(node.op), attrs, node.id if alone else None]
    key: bytes = msgpack.packb(content, unicode_errors="surrogatepass")
    return key, attrs, tuple(fills)


def _with_holes(op: Op, name: str, value: Any, fills: list[Any]) -> Any:
    """A packed value with its references, and what else may be a hole, taken out."""
    has_texts = (op, name) in TEXT_PLACES
    if name in NUMBER_PLACES and type(value) is int and 0 <= value < _LIMIT:
        fills.append(value)
        return [NUMBER_HOLE]
    if has_texts and type(value) is str:
        fills.append(value)
        return [TEXT_HOLE]
    if has_texts and type(value) is list and value[0] in (LIST, TUPLE):
        parts = (_text_out(part, fills) for part in value[1:])
        return [value[0], *parts]
    return _refs_out(value, fills)


def _text_out(value: Any, fills: list[Any]) -> Any:
    if type(value) is not str:
        return _refs_out(value, fills)
    fills.append(value)
    return [TEXT_HOLE]


def _refs_out(value: Any, fills: list[Any]) -> Any:
    if type(value) is not list:
        return value
    if _is_ref(value):
        fills.append(value)
        return [REF_HOLE]
    if value[0] == DICT:  # keys stay
        return [part if i % 2 else _refs_out(part, fills) for i, part in enumerate(value)]
    return [value[0], *(_refs_out(part, fills) for part in value[1:])]


def _columns_in(value: Any, tables: Tables) -> Any:
    """A packed value whose large containers of references alone have become columns."""
    if type(value) is not list or value[0] not in (LIST, TUPLE, DICT):
        return value
    keys, items = value[1::2], value[1:]
    if value[0] == DICT:
        items = value[2::2]
    if len(items) < _MANY or not all(map(_is_ref, items)):
        return [value[0], *(_columns_in(part, tables) for part in value[1:])]
    numbers = column([item[1] for item in items])
    if value[0] != DICT:
        return [REFS, value[0], numbers]
    if not all(type(key) is str for key in keys):
        return value
    return [NAMED_REFS, column([_fill(key, tables) for key in keys]), numbers]


def _is_ref(value: Any) -> bool:
    return type(value) is list and value[0] == REF and 0 <= value[1] < _LIMIT


def _pack_group(group: _Group, tables: Tables) -> list[Any]:
    columns = [list(fill) for fill in zip(*group.fills, strict=True)]
    same = [all(fill == fills[0] for fill in fills) for fills in columns]
    attrs = _filled(group.attrs, iter(zip(same, columns, strict=True)))
    if len(group.nodes) == 1:
        columns, attrs[1::2] = [], [_columns_in(value, tables) for value in attrs[1::2]]
    elif is_lean(attrs):
        columns = [fills for fills, is_same in zip(columns, same, strict=True) if not is_same]
    else:
        attrs = group.attrs
    first = group.nodes[0]
    return [
        str(first.op),
        attrs,
        None if first.body is None else pack_body(first.body, tables.files),
        _shared([_stream(node) for node in group.nodes]),
        _shared([tables.source(node.source) for node in group.nodes]),
        _shared([_control(node) for node in group.nodes]),
        [column([_fill(part, tables) for part in fills]) for fills in columns],
    ]


def _filled(value: Any, fills: Iterator[tuple[bool, list[Any]]]) -> Any:
    """A packed value whose holes are closed where all nodes have the same there."""
    if type(value) is not list:
        return value
    if is_hole(value):
        is_same, parts = next(fills)
        return parts[0] if is_same else value
    return [_filled(part, fills) for part in value]


def _fill(part: Any, tables: Tables) -> int:
    if type(part) is list:
        node: int = part[1]
        return node
    if type(part) is str:
        return tables.texts.setdefault(part, len(tables.texts))
    number: int = part
    return number


def _stream(node: Node) -> int:
    if not -1 <= node.stream < _LIMIT - 1:
        raise ArtifactError(f"node {node.id} {node.op} is in stream {node.stream}")
    return node.stream + 1


def _control(node: Node) -> int:
    if node.control is None:
        return 0
    at, arm = node.control
    if type(at) is not int or type(arm) is not bool or not 0 <= at < _LIMIT // 2 - 1:
        raise ArtifactError(f"node {node.id} {node.op} runs under {node.control!r:.60}")
    return 2 * at + arm + 1


def _shared(numbers: list[int]) -> int | bytes:
    return numbers[0] if all(n == numbers[0] for n in numbers) else column(numbers)


def column(numbers: Sequence[int]) -> bytes:
    """Numbers as little-endian 32-bit integers."""
    try:
        return struct.pack(f"<{len(numbers)}I", *numbers)
    except struct.error as error:
        raise ArtifactError("a line or id is too large for an artefact") from error
