"""What the prompts of a stream begin with in every instance: constant texts and roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref
from sgc_ir.ops import Op


class Piece(NamedTuple):
    """A text, or the begin or end of a role turn; `data` is the text or the role."""

    kind: Literal["text", "begin", "end"]
    data: str


def static_prefixes(graph: Graph) -> dict[int, tuple[Piece, ...]]:
    """Stream -> the pieces that it begins with, up to the first thing that may differ between
    instances; branches have those of their stream."""
    found: dict[int, list[Piece]] = {ROOT_STREAM: []}
    ended: set[int] = set()
    forks: dict[int, tuple[list[Piece], bool]] = {}
    for node in graph.nodes:
        stream = node.stream
        if node.op is Op.GET_FORK_ITEM:
            pieces, over = forks.get(node.attrs["fork"].node, ([], True))
            found[node.id] = list(pieces)
            if over:
                ended.add(node.id)
        elif node.op is Op.FORK:
            over = stream in ended or node.control is not None
            forks[node.id] = (list(found.get(stream, ())), over)
        elif (node.appends or node.body is not None) and stream in found and stream not in ended:
            pieces, more = _pieces(graph, node)
            found[stream] += pieces
            if not more:
                ended.add(stream)
    return {stream: tuple(pieces) for stream, pieces in found.items()}


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
