"""Order of the fields of a record: those that differ least from row to row go first.

A record is lines `Label: {argument}` behind each other. They may change places where nothing says
in which they stand: no ordinals or words of order anywhere in the prompt's texts, no labels of
turns, with numbers or twice, nothing but arguments in them. Which order shares most is seen on
rows, so nothing changes where none are known.

The idea is that of "Optimizing LLM Queries in Relational Data Analytics Workloads"
(arXiv 2403.05821), which orders fields row by row; here all rows keep one order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sgc_ir.analysis.text_order import common_length
from sgc_ir.graph import Graph, Ref
from sgc_ir.ops import Op
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.motion.layout import SLOT, Layout, words_of
from sgc_ir.passes.motion.segments import Piece, Segment
from sgc_ir.passes.uses import reader_counts

_FIELD = re.compile(rf"([A-Z][A-Za-z '’/()-]{{0,40}}): *{SLOT}[.,;]?\n")
_TURNS = frozenset(
    "q a question answer user assistant human ai system input output response reply instruction "
    "instructions example step task next".split()
)
_ORDERING = frozenset(
    "first second third fourth fifth last former latter order respectively next previous preceding "
    "succeeding earlier later initial final top bottom middle beginning end".split()
)


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a record.

    Attributes:
        label, tail: its text up to the slot, and behind it.
        slot, place: the slot, and where it stands among the segment's pieces.
        argument: what fills the slot, perhaps formatted.
    """

    label: str
    tail: str
    slot: Piece
    place: int
    argument: str


def records(segment: Segment, graph: Graph) -> Iterator[list[Field]]:
    """The records of a segment, of two fields at least."""
    layout = Layout(segment.text)
    places = [i for i, piece in enumerate(segment.pieces) if piece.is_slot]
    found: list[Field] = []
    seen = 0  # slots before the line
    for i in range(len(layout.lines)):
        line = layout.line(i)
        field = _field(line, segment, places[seen], graph) if _may_move(line) else None
        if field is not None:
            found.append(field)
        else:
            yield from _whole(found, segment, graph)
            found = []
        seen += line.count(SLOT)
    yield from _whole(found, segment, graph)


def _field(line: str, segment: Segment, place: int, graph: Graph) -> Field | None:
    slot = segment.pieces[place]
    argument = _argument(graph, slot.at[0])
    label, _, tail = line.partition(SLOT)
    return None if argument is None else Field(label, tail, slot, place, argument)


def _argument(graph: Graph, node_id: int) -> str | None:
    """The argument that a node gives as it is, or formatted."""
    node = graph.nodes[node_id]
    if node.op is Op.EXPR and node.attrs["fn"] in ("format", "str", "repr"):
        read = [arg for arg in node.attrs["args"] if isinstance(arg, Ref)]
        if len(read) != 1 or node.control is not None:
            return None
        node = graph.nodes[read[0].node]
    return str(node.attrs["name"]) if node.op is Op.ARGUMENT else None


def _may_move(line: str) -> bool:
    if not _FIELD.fullmatch(line):
        return False
    return _TURNS.isdisjoint(words_of(line.partition(":")[0]))


def _whole(found: list[Field], segment: Segment, graph: Graph) -> Iterator[list[Field]]:
    labels = {tuple(words_of(field.label)) for field in found}
    if len(found) > 1 and len(labels) == len(found) and _slots(found, segment, graph) is not None:
        yield found


def says_an_order(graph: Graph) -> bool:
    """Whether a text of the graph may speak of the places of what stands in it."""
    return any(not _ORDERING.isdisjoint(words_of(text)) for text in _texts(graph))


def _texts(graph: Graph) -> Iterator[str]:
    for node in graph.walk():
        if node.op is Op.CONSTANT_TEXT:
            yield node.attrs["text"]
        elif node.op is Op.EXPR:
            yield from (arg for arg in node.attrs["args"] if type(arg) is str)


def best_order(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Numbers of the fields with the fewest different values first; None where that is the order
    in which they stand, or a field is missing in the rows."""
    names = [field.argument for field in fields]
    if any(name not in row for row in rows for name in names):
        return None
    counts = [len({str(row[name]) for row in rows}) for name in names]
    order = sorted(range(len(fields)), key=lambda i: counts[i])
    return None if order == list(range(len(fields))) else order


def shared_tokens(
    fields: Sequence[Field], rows: Sequence[Mapping[str, Any]], count: Callable[[str], int]
) -> float:
    """Tokens of the record that a row shares with another one, in the mean, when rows are
    sorted."""
    texts = sorted("".join(f"{f.label}{row[f.argument]}{f.tail}" for f in fields) for row in rows)
    shared = sum(count(a[: common_length(a, b)]) for a, b in pairwise(texts))
    return shared / max(len(texts), 1)


def put_in_order(
    editor: Editor, segment: Segment, fields: Sequence[Field], order: Sequence[int]
) -> str:
    """Let the fields change places; gives the segment's text then, slots as `{name}`."""
    pieces = list(segment.pieces)
    moved = [fields[i] for i in order]
    slots = _slots(fields, segment, editor.graph)
    assert slots is not None
    for field, other, exchange in zip(fields, moved, slots, strict=True):
        exchange(editor, other.slot)
        pieces[field.place] = other.slot
    for text, at, place in _labels(segment, fields, moved):
        _set_text(editor, at, text)
        pieces[place] = Piece(text, at, pieces[place].appended)
    return Segment(segment.stream, pieces, segment.end).shown


def _labels(
    segment: Segment, fields: Sequence[Field], moved: Sequence[Field]
) -> Iterator[tuple[str, tuple[int, int | None], int]]:
    """The constants around the slots, with the labels and ends of the fields that come there."""
    first, last = fields[0], fields[-1]
    before, behind = segment.pieces[first.place - 1], segment.pieces[last.place + 1]
    head = before.text.removesuffix(first.label)
    yield head + moved[0].label, before.at, first.place - 1
    for (field, _), (own, following) in zip(pairwise(fields), pairwise(moved), strict=True):
        yield own.tail + following.label, segment.pieces[field.place + 1].at, field.place + 1
    yield moved[-1].tail + behind.text.removeprefix(last.tail), behind.at, last.place + 1


def _set_text(editor: Editor, at: tuple[int, int | None], text: str) -> None:
    node_id, place = at
    if place is None:
        editor.replace_value(node_id, text)
        editor.set_attrs(node_id, {"text": text})
        return
    args = list(editor.node(node_id).attrs["args"])
    args[place] = text
    editor.set_attrs(node_id, {"args": tuple(args)})


Exchange = Callable[[Editor, Piece], None]


def _slots(fields: Sequence[Field], segment: Segment, graph: Graph) -> list[Exchange] | None:
    """For each field how to put another one's value into its slot; None where that cannot be done:
    slots of two kinds, or the constants around one are not one before and one behind."""
    found = [_slot(field, segment, graph) for field in fields]
    slots = [field.slot.at[0] for field in fields]
    texts = [node_id for node_id, _ in filter(None, found)]
    is_apart = [node_id != slot for node_id, slot in zip(texts, slots, strict=False)]
    if None in found or len(set(is_apart)) > 1 or (is_apart[0] and max(slots) >= min(texts)):
        return None
    return [exchange for _, exchange in filter(None, found)]


def _slot(field: Field, segment: Segment, graph: Graph) -> tuple[int, Exchange] | None:
    """The node that reads the field's value, and how it reads another one."""
    place, slot = field.place, graph.nodes[field.slot.at[0]]
    around = [*segment.pieces[max(0, place - 1) : place], *segment.pieces[place + 1 : place + 2]]
    if len(around) < 2 or any(piece.is_slot for piece in around):
        return None
    if not around[0].text.endswith(field.label):
        return None
    if slot.op is Op.ARGUMENT and slot.attrs.get("append"):
        return None if slot.id in reader_counts(graph) else (slot.id, _renaming(slot.id))
    node_id, at = around[0].at
    operand = None if at is None else graph.nodes[node_id].attrs["args"][at + 1 : at + 2]
    if at is None or operand != (Ref(slot.id),):
        return None
    return node_id, _reading(node_id, at + 1)


def _renaming(node_id: int) -> Exchange:
    return lambda editor, other: editor.set_attrs(node_id, {"name": other.name})


def _reading(node_id: int, place: int) -> Exchange:
    def exchange(editor: Editor, other: Piece) -> None:
        args = list(editor.node(node_id).attrs["args"])
        args[place] = Ref(other.at[0])
        editor.set_attrs(node_id, {"args": tuple(args)})

    return exchange
