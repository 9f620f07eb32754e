"""Runs a graph once over streams that are there already: a compiled part of a running program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sgc_ir.graph import Ref
from sgc_runtime.executor.cell import Cell, as_cell, fill, gather, pending_cells
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.executable import Executable
from sgc_runtime.executor.frame import Frame, GraphRun
from sgc_runtime.executor.frames import make_frame
from sgc_runtime.executor.gate import Branch, Family, Gate, Gathered
from sgc_runtime.executor.graph_executor import handlers_of
from sgc_runtime.executor.lifetimes import GraphLives
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.stream import Stream
from sgc_runtime.executor.tools import Tool


class RegionRun:
    """One run of the main graph of a program in stream `root`; parameters may be plain values,
    Pendings, Streams, Families and handles. Event-loop thread only, but for `value` at the end.

    Branches that it opens stay open. `is_general`: constants of the graph are those of every row.
    """

    def __init__(
        self,
        executable: Executable,
        root: Stream,
        params: Mapping[str, Any],
        order: Order,
        tools: Mapping[str, Tool],
        is_general: bool,
    ) -> None:
        graph, ctx = executable.program.graph, root.ctx
        lives: Mapping[int, GraphLives] = {}
        if ctx.tells:
            is_first = is_general and _is_untouched(root)
            lives = executable.part_lives(ctx.defaults.params, is_first)
            if is_first:
                root.core.life = lives[id(graph)].begin()
        run = GraphRun(executable, tools, handlers_of(executable), lives)
        self._chain = EffectChain()
        self.frame: Frame = make_frame(run, graph, root, params, order, self._chain, carried={})
        self.opened = _StayOpen()
        self.frame.opened = self.opened

    def start(self) -> Cell:
        """Start the nodes. The cell is done when all of them have been started and Python would
        have got to the end: every reading, condition and tool has its value. It fails with the
        error of the first one that failed."""
        end = Cell()
        ctx = self.frame.root.ctx
        ctx.enter()
        self.frame.start()
        before, _ = self._chain.link()
        gather([*before, self.frame.dispatched], lambda error: _finish(end, error))
        ctx.leave()
        return end

    def when_there(self, nodes: Iterable[int], end: Cell) -> None:
        """Set `end` once the values of `nodes` are there, whatever they are."""
        cells = [cell for at in nodes for cell in _cells(self.frame.values[at])]
        gather(cells, lambda _: end.set(None))

    def raw(self, node: int) -> Any:
        """What the executor has for a node: a value, Cell, Pending, Stream, Branch, handle."""
        return self.frame.values[node]

    def value(self, node: int) -> Any:
        """The value of a node, which must be there; raises its error."""
        found = self.frame.values[node]
        if type(found) is Pending:
            found = found.value
        return as_cell(found).result() if isinstance(found, Cell) else fill(found)

    def operand(self, operand: Any) -> Any:
        """The value of an operand whose nodes are there."""
        if type(operand) is Ref:
            return self.value(operand.node)
        return operand

    def stream(self, node: int) -> Stream | None:
        """The stream that a GetForkItem or Argument opened; None where it was not reached."""
        found = self.frame.values[node]
        if type(found) is Branch:
            found = found.stream.value if found.stream.error is None else None
        return found if type(found) is Stream else None


def family_of(streams: list[Stream]) -> Family:
    """Branches that were forked before, as a parameter."""
    return Family(Cell.of(streams), Gate())


def _is_untouched(root: Stream) -> bool:
    """Whether nothing was said or called in a stream before."""
    core = root.core
    is_new = core.forked_from is None and core.life is None
    return is_new and not any(root._counts) and not core.prompt.num_chars()


class _StayOpen(list[Stream]):
    """Branches that do not end with the frame: none of them is seen when it closes its own."""

    def __iter__(self) -> Iterator[Stream]:
        return iter(())


def _finish(end: Cell, error: BaseException | None) -> None:
    if error is not None:
        end.fail(error)
    else:
        end.set(None)


def _cells(found: Any) -> list[Cell]:
    if type(found) is Pending:
        return [found.value]
    if type(found) is Branch:
        return [found.stream]
    if type(found) is Gathered:
        return [found.variables]
    return pending_cells(found)
