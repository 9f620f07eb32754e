"""The dataflow graph that a program becomes: immutable nodes in program order.

A `Graph` is a function: parameters, nodes, and one `Return` at the end. Node ids are the nodes'
indices, and an operand may only refer to an earlier node, so a graph cannot cycle. Loops own a
body graph; programs that call programs refer to further graphs of the same `Program` by name.

A node *appends* to its stream where its op is a stream op (see `sgc_ir.ops`) or its `append`
attribute is true; nodes of one stream run in id order. Everything else is data: it runs as soon
as its operands are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.ops import OPS, Op

ROOT_STREAM = -1  # `Node.stream` of nodes that belong to the stream of the graph itself


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of node `node` of the same graph."""

    node: int


@dataclass(frozen=True, slots=True)
class Source:
    """Place in the user's program; `line` is 1-based, 0 when unknown."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()  # a parameter without a default


class _Unset:
    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()  # operand of a Merge or Loop: a variable that has no value on this path
Token = tuple[int, bool]  # arm of a Branch, or (Merge, True); see `ir/README.md`, "Control flow"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a graph.

    Attributes:
        annotation: type in the form of `sgc_ir.types` ("" accepts anything).
        default: constant, or MISSING.
        keyword_only: cannot be given by position.
    """

    name: str
    annotation: str = ""
    default: Any = MISSING
    keyword_only: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        op: kind, a row of `sgc_ir.ops.OPS`.
        stream: id of the `GetForkItem` node that opened the stream, or ROOT_STREAM.
        attrs: attribute name -> operand. An operand is a constant, a `Ref`, or a tuple, list or
            dict of operands.
        control: token under which the node runs, an arm of a Branch or the arrival of a Merge;
            None: always.
        body: the graph that a Loop owns.
    """

    id: int
    op: Op
    stream: int = ROOT_STREAM
    attrs: Mapping[str, Any] = field(default_factory=dict)
    source: Source = Source()
    control: Token | None = None
    body: Graph | None = None

    @property
    def appends(self) -> bool:
        """Whether the node takes its turn in its stream."""
        return OPS[self.op].in_stream or bool(self.attrs.get("append"))

    def refs(self) -> Iterator[Ref]:
        """All `Ref`s among the operands, in attribute order."""
        for value in self.attrs.values():
            yield from iter_refs(value)


@dataclass(frozen=True, slots=True)
class Graph:
    """A function over streams: see the module docstring."""

    name: str
    params: tuple[Param, ...] = ()
    nodes: tuple[Node, ...] = ()
    source: Source = Source()

    def walk(self) -> Iterator[Node]:
        """The nodes in order, those of a loop's body behind the loop."""
        for node in self.nodes:
            yield node
            if node.body is not None:
                yield from node.body.walk()


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled program: its main graph, the graphs of the programs that it calls, and facts.

    Attributes:
        graphs: name -> graph; `main` names the entry. Further graphs of one function, for other
            constant arguments, are named `name.2`, `name.3` ...
        outputs: declared outputs, or None when every node is one.
        tools: name -> effect of each tool that the graphs call.
        notes: plain data that travels along (warnings of the tracer, bound arguments, versions).
    """

    main: str
    graphs: Mapping[str, Graph]
    outputs: tuple[str, ...] | None = None
    tools: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.graphs[self.main]

    def walk(self) -> Iterator[Node]:
        """The nodes of all graphs, see `Graph.walk`."""
        for graph in self.graphs.values():
            yield from graph.walk()


def iter_refs(value: Any) -> Iterator[Ref]:
    """The `Ref`s inside an operand."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from iter_refs(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from iter_refs(item)


def forks_of(branch: Node) -> list[int]:
    """The forks of which a GetForkItem may open a branch, by their nodes."""
    return [ref.node for ref in (branch.attrs["fork"], *branch.attrs.get("more", ()))]


def is_constant(value: Any) -> bool:
    """Whether an operand holds no `Ref`."""
    return next(iter_refs(value), None) is None


def map_refs(value: Any, fn: Any) -> Any:
    """`value` with each `Ref` replaced by `fn(ref)`; containers keep their type."""
    if isinstance(value, Ref):
        return fn(value)
    if isinstance(value, tuple):
        return tuple(map_refs(v, fn) for v in value)
    if isinstance(value, list):
        return [map_refs(v, fn) for v in value]
    if isinstance(value, dict):
        return {k: map_refs(v, fn) for k, v in value.items()}
    return value
