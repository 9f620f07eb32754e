"""What the prompts of a stream begin with in every instance: constant texts and roles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref, forks_of
from sgc_ir.ops import Op


class Piece(NamedTuple):
    """A text, or the begin or end of a role turn; `data` is the text or the role."""

    kind: Literal["text", "begin", "end"]
    data: str


class Beginning(NamedTuple):
    """What a stream begins with, as far as it is the same in every instance; `ended`: something
    else follows."""

    pieces: tuple[Piece, ...] = ()
    ended: bool = False


@dataclass(frozen=True, slots=True)
class StaticPrefixes:
    """The static beginnings in a graph.

    Attributes:
        streams: of each stream, up to the first thing that may differ between instances.
        forks: at each fork. loops: of its stream at each loop.
    """

    streams: Mapping[int, Beginning]
    forks: Mapping[int, Beginning]
    loops: Mapping[int, Beginning]


def static_prefixes(
    graph: Graph, root: Beginning, captured: Mapping[str, Beginning]
) -> StaticPrefixes:
    """The beginnings of the streams of a graph; branches have those of their stream.

    Args:
        root: of a loop's body, that of the stream around it; else an empty one.
        captured: beginnings of branches of forks that the graph was given, by parameter.
    """
    streams = {ROOT_STREAM: root}
    forks: dict[int, Beginning] = {}
    loops: dict[int, Beginning] = {}
    shared = shared_branches(graph)
    for node in graph.nodes:
        stream = streams.get(node.stream, _UNKNOWN)
        if node.op is Op.GET_FORK_ITEM:
            [fork, *others] = forks_of(node)
            at_fork = _UNKNOWN if others else forks.get(fork, _UNKNOWN)
            ended = at_fork.ended or node.id in shared
            streams[node.id] = at_fork._replace(ended=ended)
        elif node.op is Op.FORK:
            forks[node.id] = stream if node.control is None else _UNKNOWN
        elif node.op is Op.ARGUMENT and node.attrs["name"] in captured:
            forks[node.id] = captured[node.attrs["name"]]
        elif node.body is not None:
            loops[node.id] = stream
            if appends_to_root(node):
                streams[node.stream] = stream._replace(ended=True)
        elif node.appends and not stream.ended:
            pieces, more = _pieces(graph, node)
            streams[node.stream] = Beginning((*stream.pieces, *pieces), not more)
    return StaticPrefixes(streams, forks, loops)


_UNKNOWN = Beginning(ended=True)


def shared_branches(graph: Graph) -> frozenset[int]:
    """GetForkItems that may open a branch that another one of the graph opens too."""
    indexes: dict[int, list[tuple[int, Any]]] = {}
    for node in graph.nodes:
        if node.op is Op.GET_FORK_ITEM:
            for fork in forks_of(node):
                indexes.setdefault(fork, []).append((node.id, node.attrs["index"]))
    shared: set[int] = set()
    for items in indexes.values():
        known = {index for _, index in items if isinstance(index, int) and index >= 0}
        if len(known) < len(items) > 1:
            shared.update(at for at, _ in items)
    return frozenset(shared)


def _pieces(graph: Graph, node: Node) -> tuple[list[Piece], bool]:
    """What a node appends for certain, and whether that is all that it does."""
    if node.control is not None:
        return [], False
    if node.op is Op.CONSTANT_TEXT:
        return [Piece("text", node.attrs["text"])], True
    if node.op is Op.ROLE_BEGIN:
        return [Piece("begin", node.attrs["role"])], True
    if node.op is Op.ROLE_END:
        return [Piece("end", "")], True
    if node.op is Op.JOIN and node.attrs["mode"] == "gather":
        return [], True
    lead = [Piece("text", part) for part in _constants(leading(graph, node))]
    return lead, False


def _constants(parts: Sequence[Any]) -> list[str]:
    found: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            break
        found.append(part)
    return found


def appends_to_root(loop: Node) -> bool:
    """Whether the passes of a loop say something in the stream around it."""
    assert loop.body is not None, "a loop without a body"
    return any(n.stream == ROOT_STREAM and (n.appends or n.body) for n in loop.body.nodes)


def leading(graph: Graph, node: Node) -> tuple[Any, ...]:
    """Operands whose texts stand one after another at the begin of what an expression appends."""
    if node.op is not Op.EXPR or not node.appends:
        return ()
    return tuple(_flattened(graph.nodes, node.attrs["args"][0]))


def _flattened(nodes: Sequence[Node], operand: Any) -> list[Any]:
    waiting, found = [operand], []
    while waiting:
        part = waiting.pop()
        joined = _joined(nodes, nodes[part.node]) if isinstance(part, Ref) else None
        if joined is None:
            found.append(part)
        else:
            waiting += reversed(joined)
    return found


def _joined(nodes: Sequence[Node], node: Node) -> Sequence[Any] | None:
    """What an expression joins to one text, in order."""
    if node.op is not Op.EXPR or node.attrs["fn"] not in ("+", "concat", "text", "str"):
        return None
    args: Sequence[Any] = node.attrs["args"]
    return args if node.attrs["fn"] != "+" or _is_text(nodes, args) else None


def _is_text(nodes: Sequence[Node], args: Sequence[Any]) -> bool:
    """A sum is one of texts where anything in it is one."""
    waiting = list(args)
    for part in waiting:
        if isinstance(part, str):
            return True
        node = nodes[part.node] if isinstance(part, Ref) else None
        if node is None or node.op is not Op.EXPR:
            continue
        if node.attrs["fn"] in ("concat", "text", "str", "format"):
            return True
        if node.attrs["fn"] == "+" and len(waiting) < _MOST_LOOKED_AT:
            waiting += node.attrs["args"]
    return False


_MOST_LOOKED_AT = 64
