"""What a node that does not run takes from what streams expect to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_ir.graph import ROOT_STREAM, Node, forks_of
from sgc_ir.ops import Op
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
        life = _life_at(frame, node.stream, known)
        if life is not None:
            life.less()
    elif "more" in node.attrs:
        for fork in forks_of(node):
            _close(life_of(known(fork)))
    elif node.body is not None:
        inner = frame.run.lives[id(node.body)]
        if inner.root != (0, 0):
            _close(_life_at(frame, node.stream, known))
        for name in inner.captured:
            _close(_life_at(frame, node.attrs["captures"][name].node, known))


def _close(life: Life | None) -> None:
    if life is not None:
        life.more(0, -1)


def _life_at(frame: Frame, at: int, known: Callable[[int], Any]) -> Life | None:
    """The life of a stream, or of the nearest one around it that was opened."""
    nodes = frame.plan.graph.nodes
    while at != ROOT_STREAM:
        node, found = nodes[at], life_of(known(at))
        if found is not None:
            return found
        if "more" in node.attrs:
            return None  # nobody has counted its calls
        if node.op is Op.GET_FORK_ITEM:
            at = node.attrs["fork"].node
        elif node.op is Op.FORK:
            at = node.stream
        else:
            return None
    return frame.root.core.life


def life_of(value: Any) -> Life | None:
    """That of a stream or branch, or of the stream that a fork stands in."""
    if type(value) is Family:
        return value.life
    found = value.stream.value if type(value) is Branch else value
    return found.core.life if type(found) is Stream else None
