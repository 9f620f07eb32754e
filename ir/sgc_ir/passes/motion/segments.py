"""The text of a prompt between two borders, as constant pieces and slots, with where each comes
from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref
from sgc_ir.ops import Op
from sgc_ir.passes.motion.layout import SLOT
from sgc_ir.passes.texts import looks_at_streams
from sgc_ir.passes.uses import reader_counts


@dataclass(frozen=True, slots=True)
class Piece:
    """A constant, or a slot, of a prompt.

    Attributes:
        text: the constant; `SLOT` for a slot.
        at: node that holds the constant, and its position among the operands (None: its `text`);
            for a slot the node that it reads.
        appended: node of the stream by which it comes into the prompt.
        name: of a slot, the argument or variable that fills it.
    """

    text: str
    at: tuple[int, int | None]
    appended: int
    name: str = ""

    @property
    def is_slot(self) -> bool:
        return bool(self.name)


@dataclass(slots=True)
class Segment:
    """What is appended between two borders that no text may cross: model calls, role marks, forks,
    joins, media, another control.

    Attributes:
        end: what ends it: "role", "call", or "open" where its text goes on elsewhere.
    """

    stream: int
    pieces: list[Piece] = field(default_factory=list)
    end: str = "open"

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def has_slot(self) -> bool:
        return any(piece.is_slot for piece in self.pieces)

    @property
    def shown(self) -> str:
        """The text with slots as `{name}`."""
        return "".join(f"{{{p.name}}}" if p.is_slot else p.text for p in self.pieces)


def first_segments(graph: Graph, is_body: bool) -> Iterator[Segment]:
    """For each stream the first segment with a slot, where all before it is the same in every row
    (in a body: in every branch that its passes open)."""
    walk = _Walk(graph, is_body)
    for node in graph.nodes:
        yield from walk.step(node)
    yield from (segment for segment in walk.open.values() if segment.has_slot)


class _Walk:
    """Goes through a graph and collects the first text of each stream.

    Attributes:
        open: stream -> its segment so far; a stream that is not in it has had its first slot.
    """

    def __init__(self, graph: Graph, is_body: bool) -> None:
        self.graph = graph
        self.open: dict[int, Segment] = {}
        self._readers = reader_counts(graph)
        self._control: dict[int, Any] = {}
        self._forks: set[int] = set()  # at which the prompt is still the same in every row
        if not is_body:
            self.open[ROOT_STREAM] = Segment(ROOT_STREAM)

    def step(self, node: Node) -> Iterator[Segment]:
        """Go on with a node; gives the segments that it ends, if they hold a slot."""
        if node.op is Op.GET_FORK_ITEM:
            self._open_branch(node)
        elif looks_at_streams(node):
            for stream in list(self.open):
                yield from self._border(stream, "open")
            if node.body is not None:  # what its passes append differs by row
                for stream in (node.stream, *(ref.node for ref in node.refs())):
                    self.open.pop(stream, None)
        elif node.appends and node.stream in self.open:
            yield from self._append(node)

    def _open_branch(self, node: Node) -> None:
        fork = self.graph.nodes[node.attrs["fork"].node]
        is_decided = isinstance(node.attrs["index"], Ref)
        if is_decided if fork.op is Op.ARGUMENT else fork.id in self._forks and not is_decided:
            self.open[node.id] = Segment(node.id)

    def _append(self, node: Node) -> Iterator[Segment]:
        segment = self.open[node.stream]
        if self._control.setdefault(node.stream, node.control) != node.control:
            yield from self._border(node.stream, "open")
            self.open.pop(node.stream, None)
            return
        pieces = list(self._pieces(node))
        if pieces:
            segment.pieces += pieces
            return
        end = {Op.GEN: "call", Op.SELECT: "call", Op.ROLE_BEGIN: "role", Op.ROLE_END: "role"}
        yield from self._border(node.stream, end.get(node.op, "open"))
        if node.stream in self.open and node.op is Op.FORK:
            self._forks.add(node.id)
        if node.op not in (Op.ROLE_BEGIN, Op.ROLE_END, Op.FORK):
            self.open.pop(node.stream, None)  # what a model gives differs by row

    def _border(self, stream: int, end: str) -> Iterator[Segment]:
        segment = self.open[stream]
        segment.end = end
        if segment.has_slot:
            del self.open[stream]
            yield segment
        else:
            self.open[stream] = Segment(stream)

    # -- pieces

    def _pieces(self, node: Node) -> Iterator[Piece]:
        attrs = node.attrs
        if node.op is Op.CONSTANT_TEXT:
            yield Piece(attrs["text"], (node.id, None), node.id)
        elif node.op is Op.EXPR and attrs["fn"] == "text" and isinstance(attrs["args"][0], Ref):
            yield from self._expanded(attrs["args"][0].node, node)
        elif attrs.get("append"):
            yield Piece(SLOT, (node.id, None), node.id, _name(node))

    def _expanded(self, node_id: int, appended: Node) -> Iterator[Piece]:
        node = self.graph.nodes[node_id]
        if not self._is_own_text(node, appended.control):
            yield Piece(SLOT, (node_id, None), appended.id, _name(node))
            return
        for i, arg in enumerate(node.attrs["args"]):
            if type(arg) is str:
                yield Piece(arg, (node_id, i), appended.id)
            elif isinstance(arg, Ref):
                yield from self._expanded(arg.node, appended)
            else:
                yield Piece(SLOT, (node_id, i), appended.id, repr(arg))

    def _is_own_text(self, node: Node, control: tuple[int, bool] | None) -> bool:
        """Whether a node puts a text together that is read here only."""
        if node.op is not Op.EXPR or node.attrs.get("append") or node.attrs.get("kwargs"):
            return False
        if self._readers.get(node.id) != 1 or node.control not in (None, control):
            return False
        args, fn = node.attrs["args"], node.attrs["fn"]
        if fn == "concat":
            return True
        return fn == "+" and any(type(arg) is str or self._gives_text(arg) for arg in args)

    def _gives_text(self, operand: Any) -> bool:
        if not isinstance(operand, Ref):
            return False
        node = self.graph.nodes[operand.node]
        return node.op is Op.EXPR and (
            node.attrs["fn"] in ("concat", "str", "format", "text", ".join")
            or (node.attrs["fn"] == "+" and any(type(a) is str for a in node.attrs["args"]))
        )


def _name(node: Node) -> str:
    attrs: Mapping[str, Any] = node.attrs
    return str(attrs.get("name") or attrs.get("fn") or node.op)
