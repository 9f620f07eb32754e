"""Constant motion: instructions behind what differs by row move in front of it.

Requires: that a prompt may change as long as its meaning does not; so it runs only where it is
asked for. Text never crosses a model call, a role mark, a fork, a join or a medium, nor leaves the
nodes that append it; the rules of `sgc_ir.passes.motion.rules` say which blocks may move, and one
that may not holds those behind it back. Calls, parameters, paths and seeds stay the same. What the
graph was is kept in `Program.notes["reorder"]` and `restore` brings it back.

Where rows are known (`Context.rows`), fields of a record that differ least come first
(`sgc_ir.passes.motion.fields`).

The idea is that of the SGLang paper (arXiv 2312.07104, appendix D), which asked a model to do it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sgc_ir.errors import ArtifactError, SgcError
from sgc_ir.graph import Graph, Program
from sgc_ir.ops import Op
from sgc_ir.passes.base import Change, Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.motion.fields import (
    best_order,
    put_in_order,
    records,
    says_an_order,
    shared_tokens,
)
from sgc_ir.passes.motion.layout import SLOT, Block, Layout
from sgc_ir.passes.motion.rules import why_not
from sgc_ir.passes.motion.segments import Segment, first_segments
from sgc_ir.passes.values import joined, shown

NAME = "reorder"
MIN_GAIN = 8  # tokens; fewer are not worth another prompt
_FIELDS = "rules: lines of a label and an argument, whose order no text speaks of"
_EVIDENCE = "rules: an instruction of its own, without reference to its place, label or open mark"


@dataclass(frozen=True, slots=True)
class Motion:
    """What moves in one segment.

    Attributes:
        blocks: the blocks that move, in order.
        kept: (block, why it stays) of the first that does not.
        target: position in the segment's text in front of which they come.
    """

    blocks: tuple[Block, ...]
    kept: tuple[Block, str] | None
    target: int


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Move what may move in every stream's first text that differs by row."""
    if NAME in program.notes:
        return program, Report(NAME)
    moves: list[dict[str, Any]] = []
    remarks: list[Change] = []

    def change(graph: Graph, notes: Notes) -> Graph:
        if context.rows and notes.name == program.main:
            graph = _order_fields(graph, notes, context, moves)
        return _reorder(graph, notes, context, moves, remarks)

    found, report = each_graph(program, NAME, change)
    report = replace(report, remarks=tuple(remarks))
    if found is program:
        return program, report
    changed = [k for k, graph in program.graphs.items() if found.graphs[k] is not graph]
    record = {"moves": moves, "original": _text_of(program, changed)}
    return replace(found, notes={**program.notes, NAME: record}), report


def restore(program: Program) -> Program:
    """The program with the order of its texts as it was written; one that was not reordered is
    given back. Raises ArtifactError where the record cannot be read."""
    record = program.notes.get(NAME)
    if record is None:
        return program
    from sgc_ir.textform.parser import parse_program
    from sgc_ir.verify import verify

    try:
        original = parse_program(record["original"]).graphs
        notes = {k: v for k, v in program.notes.items() if k != NAME}
        found = replace(program, graphs={**program.graphs, **original}, notes=notes)
        verify(found, syntax=False)
    except (SgcError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"the record of its original order is broken: {error}") from error
    return found


def _text_of(program: Program, names: list[str]) -> str:
    from sgc_ir.textform.printer import print_program

    graphs = {name: program.graphs[name] for name in names}
    return print_program(Program(names[0], graphs))


# -- one graph


def _order_fields(
    graph: Graph, notes: Notes, context: Context, moves: list[dict[str, Any]]
) -> Graph:
    """Put fields of records that differ least in the rows first."""
    if says_an_order(graph):
        return graph
    editor = Editor(graph)
    for segment in first_segments(graph, is_body=False):
        for fields in records(segment, graph):
            order = best_order(fields, context.rows)
            if order is None or segment.shown in context.refused:
                continue
            count, rows = context.count_tokens, context.rows
            moved = [fields[i] for i in order]
            gain = round(shared_tokens(moved, rows, count) - shared_tokens(fields, rows, count))
            if gain < MIN_GAIN:
                continue
            after = put_in_order(editor, segment, fields, order)
            node = graph.nodes[segment.pieces[0].appended]
            names = ", ".join(field.argument for field in moved)
            notes.add(node, f"fields in the order {names}: {gain} more shared {context.unit} a row")
            facts = {"graph": notes.name, "node": notes.path(node), "source": str(node.source)}
            texts = {"before": segment.shown, "after": after, "moved": [f.label for f in moved]}
            move = {**facts, **texts, "gain": gain, "unit": context.unit}
            moves.append({**move, "evidence": f"{_FIELDS}, seen on {len(rows)} rows"})
            break  # one record of a segment: what is shown of it is the order as written
    return editor.done()


def _reorder(
    graph: Graph,
    notes: Notes,
    context: Context,
    moves: list[dict[str, Any]],
    remarks: list[Change],
) -> Graph:
    editor = Editor(graph)
    for segment in first_segments(graph, is_body=".%" in notes.name):
        motion = plan(segment)
        node = graph.nodes[segment.pieces[0].appended]
        if motion.kept is not None:
            block, reason = motion.kept
            text = segment.text[block.start : block.stop].strip()
            remarks.append(notes.change(node, f"keeps {shown(text)}: {reason}"))
        gain = gain_of(segment, motion, context)
        before = segment.shown
        if not motion.blocks or gain < MIN_GAIN or before in context.refused:
            continue
        edit = edited(segment, motion)
        _apply(editor, segment, edit)
        moved = [segment.text[b.start : b.stop].strip() for b in motion.blocks]
        notes.add(
            node, f"moves {shown(' '.join(moved))} forward: {gain} more shared {context.unit}"
        )
        after = edit.lead + "".join(
            f"{{{p.name}}}" if p.is_slot else text
            for p, text in zip(segment.pieces, edit.texts, strict=True)
        )
        facts = {"graph": notes.name, "node": notes.path(node), "source": str(node.source)}
        texts = {"before": before, "after": after, "moved": moved}
        moves.append({**facts, **texts, "gain": gain, "unit": context.unit, "evidence": _EVIDENCE})
    return editor.done()


def plan(segment: Segment) -> Motion:
    """The blocks of a segment that may go in front of its first slot."""
    layout = Layout(segment.text)
    blocks: list[Block] = []
    for block in layout.blocks:
        is_last = not layout.text[block.stop :].strip()
        if is_last and segment.end != "role":
            reason: str | None = "what comes next goes on from it"
        else:
            reason = why_not(layout, block)
        if reason is not None:
            return Motion(tuple(blocks), (block, reason), layout.target)
        blocks.append(block)
    return Motion(tuple(blocks), None, layout.target)


def gain_of(segment: Segment, motion: Motion, context: Context) -> int:
    """By how many tokens the part of a segment grows that is the same in every row."""
    if not motion.blocks:
        return 0
    text = segment.text
    first = text.index(SLOT)
    lead = text[: motion.target] + moved_text(text, motion) + text[motion.target : first]
    return context.count_tokens(lead) - context.count_tokens(text[:first])


def moved_text(text: str, motion: Motion) -> str:
    """What is put in front: the blocks, set apart as they were."""
    parts = []
    for block in motion.blocks:
        is_apart = text[: block.start].endswith("\n\n") or text[block.stop : block.end].strip(" ")
        parts.append(text[block.start : block.stop].rstrip() + ("\n\n" if is_apart else "\n"))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Edit:
    """The texts of a segment's pieces after the motion; `lead` comes before all of them."""

    texts: tuple[str, ...]
    lead: str


def edited(segment: Segment, motion: Motion) -> Edit:
    """The segment's pieces with the blocks taken out and put in front."""
    text = segment.text
    stays = _staying(text, motion)
    lead = moved_text(text, motion)
    texts, begin = [], 0
    for piece in segment.pieces:
        end = begin + len(piece.text)
        kept = "".join(text[i] for i in range(begin, end) if stays[i])
        if lead and not piece.is_slot and begin <= motion.target <= end:
            at = motion.target - begin  # nothing in front of the target goes
            kept = kept[:at] + lead + kept[at:]
            lead = ""
        texts.append(kept)
        begin = end
    return Edit(tuple(texts), lead)


def _staying(text: str, motion: Motion) -> bytearray:
    """Which characters stay: all but the blocks, with the blank lines behind each, or before what
    was the end."""
    stays = bytearray(b"\1") * len(text)
    for block in motion.blocks:
        stays[block.start : block.end] = bytes(block.end - block.start)
    if text and not stays[-1]:
        at = len(text) - 1
        while at > motion.target and (not stays[at] or text[at] in "\n "):
            stays[at] = 0
            at -= 1
    return stays


def _apply(editor: Editor, segment: Segment, edit: Edit) -> None:
    first = editor.graph.nodes[segment.pieces[0].appended]
    if edit.lead:
        editor.insert(first.id, Op.CONSTANT_TEXT, {"text": edit.lead}, first)
    operands: dict[int, dict[int, str]] = {}
    for piece, text in zip(segment.pieces, edit.texts, strict=True):
        node_id, at = piece.at
        if piece.is_slot or text == piece.text:
            continue
        if at is not None:
            operands.setdefault(node_id, {})[at] = text
            continue
        editor.replace_value(node_id, piece.text)
        if text:
            editor.set_attrs(node_id, {"text": text})
        else:
            editor.drop(node_id)
    for node_id, texts in operands.items():
        node = editor.graph.nodes[node_id]
        args = [texts.get(i, arg) for i, arg in enumerate(node.attrs["args"])]
        if node.attrs["fn"] == "concat":
            args = joined(args)
        editor.set_attrs(node_id, {"args": tuple(args)})
