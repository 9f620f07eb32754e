"""Branches on failures: what an `except` of the program took, and what it did not.

A reading that may fail is one at which Python would stop. Where a Branch looks at it, the Branch
decides: once everything before it in program order has gone well, it takes the error, so that the
streams that the error has stopped go on with what follows in the program.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sgc_ir.graph import Node
from sgc_ir.taken_error import TakenError, kinds_of
from sgc_runtime.executor.cell import Cell, as_cell, gather
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.late_values import NotReached
from sgc_runtime.executor.pending import Pending

_NOT_AWAITED = ("item", "output", "kind", "error")  # there already, or no reading at all


class Outcome(Cell):
    """The truth of a Branch on failures; `taken` is the error that it took."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        super().__init__()
        self.taken: TakenError | None = None


def guard_reading(frame: Frame, node: Node, value: Any) -> None:
    """Tools, and Branches on failures, that come later wait for a reading to go well."""
    if frame.chain is None or node.attrs.get("field") in _NOT_AWAITED:
        return
    cell = value.value if type(value) is Pending else as_cell(value)
    if node.id in frame.plan.tried:
        return
    frame.chain.guard(cell)
    if frame.run.executable.catches and not (cell.done and cell.error is None):
        cell.then(lambda done: _note_again(frame, node, done))


def tool_ended(frame: Frame, node: Node, done: Cell, result: Cell) -> None:
    """The next tool may run, unless this one has failed and no `try` sees it."""
    if result.error is not None and node.id not in frame.plan.tried:
        done.fail(result.error)
    else:
        done.set(None)


def _note_again(frame: Frame, node: Node, done: Cell) -> None:
    """A reading outside of any `try` fails the row, also with an error that one took before."""
    if done.error is not None:
        frame.root.ctx.note_again(done.error, frame.order(node))


def raise_again(frame: Frame, node: Node) -> Cell:
    """The program raises an error that it has taken."""
    result = Cell()

    def raised(cell: Cell) -> None:
        error: BaseException = cell.error if cell.error is not None else cell.value.error
        frame.root.ctx.note_again(error, frame.order(node))
        result.fail(error)

    as_cell(frame.operand(node.attrs["args"][0])).then(raised)
    if frame.chain is not None:
        frame.chain.guard(result)
    return result


def taken_error(branch: Any) -> Cell:
    """Facts of the error that a Branch took."""
    assert type(branch) is Outcome, "the error of a Branch that takes none"
    return Cell.of(branch.taken)


def decide(frame: Frame, node: Node, outcome: Outcome) -> None:
    """Settle a Branch on failures, in its turn."""
    assert frame.chain is not None, "a program that takes errors has a chain"
    before, done = frame.chain.link()
    reading = as_cell(frame.operand(node.attrs["cond"]))
    ctx = frame.root.ctx
    ctx.enter()

    def settled(_: Cell) -> None:
        outcome.then(lambda cell: done.fail(cell.error) if cell.error else done.set(None))
        ctx.leave()

    def ready(_: BaseException | None) -> None:
        stopped = next((cell.error for cell in before if cell.error is not None), None)
        if stopped is not None:
            outcome.fail(stopped)
        elif reading.error is None:
            outcome.set(False)
        elif takes(node, reading.error) and ctx.cancelled is None:
            # what waits in streams for values that are there now comes before
            asyncio.get_running_loop().call_soon(_take, frame, outcome, reading.error)
        else:
            ctx.note_again(reading.error, frame.order(node))
            outcome.fail(reading.error)

    outcome.then(settled)
    gather([*before, reading], ready)


def takes(node: Node, error: BaseException) -> bool:
    """Whether a Branch takes an error of this kind."""
    if isinstance(error, NotReached) or not isinstance(error, Exception):
        return False
    return any(kind in node.attrs["catch"] for kind in kinds_of(error))


def _take(frame: Frame, outcome: Outcome, error: BaseException) -> None:
    ctx = frame.root.ctx
    if ctx.cancelled is not None:
        outcome.fail(ctx.cancelled)
        return
    ctx.acknowledge(error)
    outcome.taken = TakenError(error)
    outcome.set(True)
