"""Graphs of an artefact as they lie in it: shapes and columns, of which nodes are made on demand.

Reading checks the form of all data, so that making nodes cannot fail.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise, repeat
from typing import Any, NamedTuple

from sgc_ir.codec_graph import Reader, array, fields, text
from sgc_ir.codec_shapes import (
    NUMBER_HOLE,
    NUMBER_PLACES,
    REF_HOLE,
    REFS,
    TEXT_HOLE,
    TEXT_PLACES,
    holds_hole,
    is_column,
    is_hole,
    is_lean,
)
from sgc_ir.codec_values import DICT, LIST, TUPLE, unpack_value
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Graph, Node, Ref, Source, Token
from sgc_ir.limits import MAX_NODES, MAX_VALUE_DEPTH
from sgc_ir.ops import ATTR_ORDER, Op

Numbers = tuple[int, ...]


class Constant(NamedTuple):
    """An operand that is equal in all nodes of a shape."""

    value: Any


class Fills(NamedTuple):
    """What fills a hole, node by node; `tag` says what the numbers are."""

    tag: int
    numbers: Numbers


class Refs(NamedTuple):
    """A container of references to `numbers`, equal in all nodes of a shape; `keys` of a dict."""

    tag: int
    keys: tuple[str, ...]
    numbers: Numbers

    def made(self) -> Any:
        return _container(self.tag, self.keys, map(Ref, self.numbers))

    def alike(self) -> Any:
        """A container of the same size and keys."""
        return _container(self.tag, self.keys, [Ref(0)] * len(self.numbers))


class Parts(NamedTuple):
    """A container with holes; `keys` of a dict, its values being the items."""

    tag: int
    keys: tuple[Any, ...]
    items: list[Constant | Fills | Refs | Parts]


Operand = Constant | Fills | Refs | Parts


class StoredTables:
    """What the graphs of an artefact share."""

    def __init__(self, reader: Reader, sources: Any, found: Any) -> None:
        self.reader = reader
        files, lines = (column(part) for part in fields(sources, 2, "table of sources"))
        if len(files) != len(lines) or max(files, default=-1) >= len(reader.files):
            raise ArtifactError("damaged artefact: its table of sources")
        self._places = list(zip(files, lines, strict=True))
        self.sources = len(files)
        self.texts = _cut(*fields(found, 2, "table of texts"))
        self.has_empty = "" in self.texts

    def text(self, place: int) -> str:
        if place >= len(self.texts):
            raise ArtifactError("damaged artefact: a text")
        return self.texts[place]

    def source(self, place: int) -> Source:
        return self.reader.source(list(self._places[place]))


def _cut(lengths: Any, found: Any) -> list[str]:
    if type(found) is not bytes:
        raise ArtifactError("damaged artefact: its table of texts")
    try:
        whole = found.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"damaged artefact: its table of texts: {error}") from error
    ends = list(accumulate(column(lengths), initial=0))
    if ends[-1] != len(whole):
        raise ArtifactError("damaged artefact: its table of texts")
    return [whole[begin:end] for begin, end in pairwise(ends)]


def column(data: Any) -> Numbers:
    """Numbers of 32 bits. Raises ArtifactError."""
    if type(data) is not bytes or len(data) % 4:
        raise ArtifactError("damaged artefact: a column")
    return struct.unpack(f"<{len(data) // 4}I", data)


class Shape:
    """Nodes that are equal but for what fills the holes.

    Attributes:
        ids: of its nodes, ascending.
        streams, sources, controls: one number for all, or one for each node.
        refs: node ids that columns of references hold, by attribute.
        fixed: node ids that every node refers to, by attribute.
    """

    def __init__(self, data: Any, ids: Sequence[int], tables: StoredTables) -> None:
        op, attrs, body, streams, sources, controls, columns = fields(data, 7, "shape")
        self.op = _op(op)
        self.ids, self._tables = ids, tables
        self._lay(array(attrs, "attributes"), array(columns, "columns"))
        if body is not None and len(ids) > 1:
            raise ArtifactError("damaged artefact: several nodes own one body")
        self.body = None if body is None else tables.reader.graph(body, 1)
        self.streams, self.sources, self.controls = map(
            self._shared, (streams, sources, controls), ("streams", "sources", "controls")
        )
        highest = self.sources if isinstance(self.sources, int) else max(self.sources)
        if highest >= tables.sources:
            raise ArtifactError("damaged artefact: a source")

    def _shared(self, data: Any, what: str) -> int | Numbers:
        if type(data) is int and 0 <= data < 2**32:
            return data
        numbers = column(data)
        if len(numbers) != len(self.ids):
            raise ArtifactError(f"damaged artefact: {what}")
        return numbers

    def _lay(self, attrs: list[Any], columns: list[Any]) -> None:
        if len(attrs) % 2 or (len(self.ids) > 1 and not is_lean(attrs)):
            raise ArtifactError(f"damaged artefact: attributes of a shape of {self.op}")
        fills = [column(part) for part in columns]
        if any(len(part) != len(self.ids) for part in fills):
            raise ArtifactError("damaged artefact: a column")
        self.has_holes = bool(fills)
        self.attrs: dict[str, Operand] = {}
        waiting = iter(fills)
        for at in range(0, len(attrs), 2):
            name = text(attrs[at], "attribute")
            if name in self.attrs or name not in ATTR_ORDER[self.op]:
                first = f"node {self.ids[0]} {self.op}"
                raise ArtifactError(f"damaged artefact: {first} has attribute {name!r:.80}")
            self.attrs[name] = self._operand(name, attrs[at + 1], waiting, 0)
        if next(waiting, None) is not None:
            raise ArtifactError("damaged artefact: a column without a hole")

    def _operand(self, name: str, data: Any, fills: Iterator[Numbers], depth: int) -> Operand:
        if not holds_hole(data):
            return Constant(unpack_value(data, depth))
        if depth > MAX_VALUE_DEPTH:
            raise ArtifactError(f"damaged artefact: a value nests deeper than {MAX_VALUE_DEPTH}")
        tag, rest = data[0], data[1:]
        if is_column(data):
            return self._column(tag, *rest)
        if is_hole(data):
            return self._filled(name, tag, next(fills, None), depth)
        if type(tag) is int and tag in (LIST, TUPLE):
            return Parts(tag, (), [self._operand(name, part, fills, depth + 1) for part in rest])
        if tag != DICT or len(rest) % 2 or any(map(holds_hole, rest[::2])):
            raise ArtifactError("damaged artefact: a hole at the wrong place")
        keys = unpack_value([DICT, *(part for key in rest[::2] for part in (key, None))], depth)
        return Parts(
            tag, tuple(keys), [self._operand(name, part, fills, depth + 1) for part in rest[1::2]]
        )

    def _column(self, tag: int, what: Any, numbers: Any) -> Refs:
        if tag == REFS:
            if type(what) is not int or what not in (LIST, TUPLE):
                raise ArtifactError("damaged artefact: a column of references")
            return Refs(what, (), column(numbers))
        keys = tuple(self._tables.text(place) for place in column(what))
        if len(set(keys)) != len(keys) or len(keys) != len(column(numbers)):
            raise ArtifactError("damaged artefact: a column of named references")
        return Refs(DICT, keys, column(numbers))

    def _filled(self, name: str, tag: int, numbers: Numbers | None, depth: int) -> Fills:
        is_right = tag == REF_HOLE
        if tag == TEXT_HOLE and numbers:
            is_right = (self.op, name) in TEXT_PLACES
            self._tables.text(max(numbers))
        elif tag == NUMBER_HOLE:
            is_right = name in NUMBER_PLACES and depth == 0
        if numbers is None or not is_right:
            raise ArtifactError("damaged artefact: a hole at the wrong place")
        return Fills(tag, numbers)

    def has_empty_text(self) -> bool:
        """Whether one of the holes for texts is filled with none."""
        return self._tables.has_empty and any(
            not self._tables.texts[place]
            for operand in self.attrs.values()
            for place in _texts_of(operand)
        )

    def example(self, operand: Operand, short: bool = False) -> Any:
        """An operand as in the first node, but that containers of references hold others; with
        `short` they are empty."""
        if isinstance(operand, Constant):
            return operand.value
        if isinstance(operand, Refs):
            return operand.alike() if not short else _container(operand.tag, (), ())
        if isinstance(operand, Fills):
            return self._maker(operand.tag)(operand.numbers[0])
        items = (self.example(item, short) for item in operand.items)
        return _container(operand.tag, operand.keys, items)

    def _maker(self, tag: int) -> Callable[[int], Any]:
        if tag == NUMBER_HOLE:
            return int
        return Ref if tag == REF_HOLE else self._tables.texts.__getitem__

    # -- making nodes

    def nodes(self) -> Iterable[Node]:
        """All nodes of the shape, in the order of their ids."""
        return map(
            Node,
            self.ids,
            repeat(self.op),
            self.stream_ids(),
            self._attrs(),
            _spread(self.sources, self._tables.source),
            _spread(self.controls, token),
            repeat(self.body),
        )

    def first(self) -> Node:
        """A node like the first one: its containers of references hold others."""
        attrs = {name: self.example(operand) for name, operand in self.attrs.items()}
        return Node(self.ids[0], self.op, attrs=attrs, body=self.body)

    def stream_ids(self) -> Iterable[int]:
        """Streams of the nodes; without end where it is the same for all."""
        if isinstance(self.streams, int):
            return repeat(self.streams - 1)
        return [stream - 1 for stream in self.streams]

    def _attrs(self) -> Iterable[dict[str, Any]]:
        if not self.has_holes:
            firsts = (next(iter(self._values(operand))) for operand in self.attrs.values())
            return repeat(dict(zip(self.attrs, firsts, strict=True)))
        rows = zip(*(self._values(operand) for operand in self.attrs.values()), strict=False)
        return (dict(zip(self.attrs, row, strict=True)) for row in rows)

    def _values(self, operand: Operand) -> Iterable[Any]:
        if isinstance(operand, Constant):
            return repeat(operand.value)
        if isinstance(operand, Refs):
            return repeat(operand.made())
        if isinstance(operand, Fills):
            return map(self._maker(operand.tag), operand.numbers)
        rows = zip(*(self._values(item) for item in operand.items), strict=False)
        if operand.tag == TUPLE:
            return rows
        if operand.tag == LIST:
            return map(list, rows)
        return (dict(zip(operand.keys, row, strict=True)) for row in rows)


def _texts_of(operand: Operand) -> Iterator[int]:
    if isinstance(operand, Fills) and operand.tag == TEXT_HOLE:
        yield from operand.numbers
    elif isinstance(operand, Parts):
        for item in operand.items:
            yield from _texts_of(item)


def _container(tag: int, keys: tuple[Any, ...], items: Iterable[Any]) -> Any:
    if tag == DICT:
        return dict(zip(keys, items, strict=True))
    return tuple(items) if tag == TUPLE else list(items)


def _spread(numbers: int | Numbers, made: Callable[[int], Any]) -> Iterable[Any]:
    return repeat(made(numbers)) if isinstance(numbers, int) else map(made, numbers)


def token(code: int) -> Token | None:
    """The token that a number of the column of controls stands for."""
    return ((code - 1) >> 1, not code & 1) if code else None


def _op(name: Any) -> Op:
    try:
        return Op(name)
    except ValueError:
        raise ArtifactError(f"damaged artefact: a node is an unknown {name!r:.80}") from None


class StoredGraph:
    """A graph as it lies in an artefact."""

    def __init__(self, data: Any, tables: StoredTables) -> None:
        name, params, source, kinds, shapes = fields(data, 5, "graph")
        reader = tables.reader
        self.header = Graph(
            text(name, "graph name"),
            tuple(reader.param(item) for item in array(params, "parameters")),
            source=reader.source(source),
        )
        self.kinds = column(kinds)
        if len(self.kinds) > MAX_NODES:
            raise ArtifactError(f"graph {name}: {len(self.kinds)} nodes, more than {MAX_NODES}")
        ids: list[list[int]] = [[] for _ in array(shapes, "shapes")]
        if max(self.kinds, default=-1) >= len(ids):
            raise ArtifactError("damaged artefact: a node without a shape")
        for index, kind in enumerate(self.kinds):
            ids[kind].append(index)
        if not all(ids):
            raise ArtifactError("damaged artefact: a shape without a node")
        self.shapes = [Shape(*pair, tables) for pair in zip(shapes, ids, strict=True)]

    def make(self) -> Graph:
        made = [iter(shape.nodes()) for shape in self.shapes]
        nodes = tuple(map(next, map(made.__getitem__, self.kinds)))
        return Graph(self.header.name, self.header.params, nodes, self.header.source)


class StoredGraphs(Mapping[str, Graph]):
    """Graphs by name, each made when it is first asked for."""

    def __init__(self, stored: Iterable[StoredGraph]) -> None:
        self.stored = {graph.header.name: graph for graph in stored}  # those that are not made yet
        self._names = tuple(self.stored)
        self._made: dict[str, Graph] = {}

    def __getitem__(self, name: str) -> Graph:
        stored = self.stored.get(name)
        if stored is None:
            return self._made[name]
        made = self._made.setdefault(name, stored.make())  # two threads may come here at once
        self.stored.pop(name, None)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
