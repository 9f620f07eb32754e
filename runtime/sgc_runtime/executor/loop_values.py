"""What a loop gives: the list with one value a pass, and what its last pass leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.graph import Node
from sgc_runtime.executor.cell import Cell, ListCell, as_cell
from sgc_runtime.executor.pending import Pending, fill_pending


class LoopValues(ListCell):
    """The list of a Loop node.

    Attributes:
        outputs: carried slot -> what it is after the last pass; may be `UNSET` or a handle.
        kind: gets how the last pass ended: 0 the loop went on, 1 break, 2 return.
        ended: done when every node of every pass has been started or is dead.
    """

    __slots__ = ("ended", "kind", "outputs")

    def __init__(self, node: Node) -> None:
        super().__init__()
        self.outputs = {name: Pending(name) for name in node.attrs.get("carried", ())}
        self.kind = Cell()
        self.ended = Cell()

    def leave(self, carried: Mapping[str, Any], kind: Any) -> None:
        """The last pass is known, and what it leaves."""
        for name, pending in self.outputs.items():
            fill_pending(pending, carried[name])
        as_cell(kind).forward(self.kind)

    def give_up(self, error: BaseException) -> None:
        """There are no passes."""
        self.fail(error)
        self.lose(error)
        self.ended.set(None)

    def lose(self, error: BaseException) -> None:
        """Nobody will know which pass is the last."""
        for pending in self.outputs.values():
            pending.fail(error)
        self.kind.fail(error)
