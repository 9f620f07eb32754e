"""What a node that does not run takes from what streams expect to come."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sgc_ir.graph import ROOT_STREAM, Node, forks_of
from sgc_ir.ops import Op
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.gate import Branch, Family
from sgc_runtime.executor.lifetimes import GraphLives, Life
from sgc_runtime.executor.stream import Stream


def note_dead(frame: Frame, node: Node, lives: GraphLives, known: Callable[[int], Any]) -> None:
    """A node of the frame will not run.

    Args:
        known: gives the value of a node as far as it is known.
    """
    if node.id in lives.calls:
        _at_life(frame, node.stream, known, Life.less)
    elif "more" in node.attrs:
        for fork in forks_of(node):
            _at_life(frame, fork, known, _close)
    elif node.body is not None:
        inner = frame.run.lives[id(node.body)]
        if inner.root != (0, 0):
            _at_life(frame, node.stream, known, _close)
        for name in inner.captured:
            _at_life(frame, node.attrs["captures"][name].node, known, _close)


def _close(life: Life) -> None:
    life.more(0, -1)


def _at_life(
    frame: Frame, at: int, known: Callable[[int], Any], note: Callable[[Life], None]
) -> None:
    """Note something of the life of a stream, or of the nearest one around it that was opened."""
    nodes = frame.plan.graph.nodes
    while at != ROOT_STREAM:
        node, value = nodes[at], known(at)
        found = life_of(value)
        if found is not None:
            note(found)
            return
        if "more" in node.attrs:  # what is around it learns of its calls when it is chosen
            if type(value) is Branch:
                value.stream.then(partial(_note_chosen, note))
            return
        if node.op is Op.GET_FORK_ITEM:
            at = node.attrs["fork"].node
        elif node.op is Op.FORK:
            at = node.stream
        else:
            return
    if frame.root.core.life is not None:
        note(frame.root.core.life)


def _note_chosen(note: Callable[[Life], None], chosen: Cell) -> None:
    if chosen.error is None and chosen.value.core.life is not None:
        note(chosen.value.core.life)


def life_of(value: Any) -> Life | None:
    """That of a stream or branch, or of the stream that a fork stands in."""
    if type(value) is Family:
        return value.life
    found = value.stream.value if type(value) is Branch else value
    return found.core.life if type(found) is Stream else None
