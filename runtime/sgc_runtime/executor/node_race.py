"""Starts `sgc.first` nodes: finds out what their branches, or sub-programs, are at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.graph import Node, Ref, iter_refs
from sgc_runtime.executor import node_data
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather, resolve
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.gate import Branch, Family
from sgc_runtime.executor.handle import Handle, Running, UnsetVariable
from sgc_runtime.executor.node_streams import with_branches
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.race import Entrant, Race, branch_entrant
from sgc_runtime.executor.stream import Stream

Results = Mapping[str, Any] | None  # what a branch gives: variable -> its writer


def first(frame: Frame, node: Node) -> Cell:
    """`sgc.first`: a cell with the list of what the first branches give."""
    result = Cell()
    if frame.chain is not None and node.id not in frame.plan.tried:
        frame.chain.guard(result)
    if "fork" in node.attrs:
        _among_branches(frame, node, result)
    else:
        _among(frame, node, result)
    return result


def variable(frame: Frame, node: Node) -> Any:
    """`Variable` in a program with races: reading what a race has cancelled fails the row."""
    value = node_data.variable(frame, node)

    def read(cell: Cell) -> None:
        if cell.error is not None and node.id not in frame.plan.tried:
            frame.root.ctx.note_reading(cell.error, frame.order(node))

    _cell(value).then(read)
    return value


def _cell(value: Any) -> Cell:
    return value.value if type(value) is Pending else as_cell(value)


def _among_branches(frame: Frame, node: Node, result: Cell) -> None:
    """The branches of a fork of run-time width; they know their variables themselves."""
    family: Family = frame.values[node.attrs["fork"].node]

    def use(branches: list[Stream]) -> None:
        try:
            entrants = [branch_entrant(branch) for branch in branches]
        except ValueError as wrong:  # an artefact whose branches set nothing
            result.fail(frame.node_failure(node, str(wrong)))
        else:
            _begin(frame, node, entrants, result)

    with_branches(frame, node, family, use, result.fail)


def _among(frame: Frame, node: Node, result: Cell) -> None:
    """Listed branches of known width, or sub-programs; how many may be left to the run."""
    among = node.attrs["among"]
    if not isinstance(among, Ref):
        results = node.attrs.get("results") or [None] * len(among)
        pairs = zip(among, results, strict=True)
        _begin(
            frame, node, [_entrant(frame, node, frame.values[r.node], v) for r, v in pairs], result
        )
        return
    frame.root.ctx.enter()

    def known(listed: Cell) -> None:
        if listed.error is not None:
            result.fail(listed.error)
        elif not isinstance(listed.value, list | tuple):
            result.fail(frame.node_failure(node, "a race among what is no list of sub-programs"))
        else:
            _begin(frame, node, [_entrant(frame, node, x, None) for x in listed.value], result)
        frame.root.ctx.leave()

    found = frame.operand(among)
    (found.items if isinstance(found, ListCell) else as_cell(found)).then(known)


def _begin(frame: Frame, node: Node, entrants: Sequence[Entrant], result: Cell) -> None:
    frame.root.ctx.enter()
    reads = [_cell(frame.values[ref.node]) for ref in iter_refs(node.attrs.get("reads"))]

    def ready(value: Any, error: BaseException | None) -> None:
        if error is not None:
            result.fail(error)
        else:
            ordinal, count = value
            race = Race(result, ordinal, node.source, frame.order(node))
            frame.in_stream(
                node, lambda stream: race.begin(stream.core, count, entrants, reads), result.fail
            )
        frame.root.ctx.leave()

    resolve(frame.operand((node.attrs["ordinal"], node.attrs["count"])), ready)


def _entrant(frame: Frame, node: Node, value: Any, results: Results) -> Entrant:
    """What may be first: a branch with the writers of its variables, or a sub-program."""
    entrant = Entrant(Cell(), Cell())
    if isinstance(value, Pending):
        value = value.value
    if isinstance(value, Cell):
        value.then(lambda cell: _enter_late(frame, node, cell, results, entrant))
    elif isinstance(value, Handle):
        return program_entrant(value)
    elif isinstance(value, Stream | Branch):
        stream = value.stream if isinstance(value, Branch) else Cell.of(value)
        stream.then(lambda cell: entrant.root.take(_core_of(cell)))
        as_cell(frame.operand(results)).forward(entrant.done)
    else:
        reason = "a race among what is neither a branch nor a sub-program"
        entrant.done.fail(frame.node_failure(node, reason))
    return entrant


def program_entrant(handle: Handle) -> Entrant:
    """A sub-program that runs as a graph, as one that may be among the first."""
    entrant = Entrant(Cell(), Cell())
    handle.root.forward(entrant.root)
    handle.frame.then(lambda cell: _finish_program(cell, entrant.done))
    return entrant


def _enter_late(frame: Frame, node: Node, cell: Cell, results: Results, entrant: Entrant) -> None:
    if cell.error is not None:
        entrant.root.fail(cell.error)
        entrant.done.fail(cell.error)
        return
    found = _entrant(frame, node, cell.value, results)
    found.root.forward(entrant.root)
    found.done.forward(entrant.done)


def _core_of(stream: Cell) -> Cell:
    return stream if stream.error is not None else Cell.of(stream.value.core)


def _finish_program(frame: Cell, done: Cell) -> None:
    """A sub-program has finished when its value and its variables are there."""
    if frame.error is not None:
        done.fail(frame.error)
        return
    running: Running = frame.value
    cells = [running.result, *[pending.value for pending in running.variables.values()]]

    def ended(_: BaseException | None) -> None:
        errors = [c.error for c in cells if c.error and not isinstance(c.error, UnsetVariable)]
        if errors:
            done.fail(errors[0])
        else:
            done.set(running.result.value)

    gather(cells, ended)
