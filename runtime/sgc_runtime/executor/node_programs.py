"""Starts the nodes that run further graphs: sub-programs and loops over run-time lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, ROOT_STREAM, Node, Param, Ref
from sgc_ir.types import check_value
from sgc_runtime.executor.cell import Cell, ListCell, as_cell, gather
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.frame import BodyRoot, Frame
from sgc_runtime.executor.gate import Family, Gate
from sgc_runtime.executor.handle import Handle
from sgc_runtime.executor.operations import ForkPoint
from sgc_runtime.executor.stream import Stream


def sub_program(frame: Frame, node: Node) -> Handle:
    handle = Handle()
    params = _callee_params(frame, node)
    frame.defer()

    def ready(cell: Cell) -> None:
        if cell.error is not None:
            handle.frame.fail(cell.error)
        else:
            frame.in_stream(
                node,
                lambda stream: _start_callee(frame, node, stream, cell.value, params, handle),
                handle.frame.fail,
            )
        frame.undefer()

    as_cell(frame.operand(node.attrs["ordinal"])).then(ready)
    return handle


def _callee_params(frame: Frame, node: Node) -> dict[str, Any]:
    graph = frame.run.executable.program.graphs[node.attrs["callee"]]
    given = node.attrs["args"]
    params: dict[str, Any] = {}
    for param in graph.params:
        if param.name in given:
            params[param.name] = _checked(frame, node, param, frame.operand(given[param.name]))
        elif param.default is MISSING:
            error = InputError(f"{graph.name}: missing argument {param.name}; give a value")
            params[param.name] = Cell.failed(frame.fail(node, error))
        else:
            params[param.name] = param.default
    return params


def _checked(frame: Frame, node: Node, param: Param, operand: Any) -> Any:
    """The operand as a value or Cell that fits the parameter's annotation."""
    if not param.annotation:
        return as_cell(operand) if isinstance(operand, tuple | list | dict) else operand
    checked = Cell()

    def check(value: Any) -> Any:
        try:
            check_value(value, param.annotation)
        except ValueError as error:
            name = node.attrs["callee"]
            raise InputError(f"{name}: argument {param.name}: {error}") from None
        return value

    frame.compute(node, operand, check, checked)
    return checked


def _start_callee(
    frame: Frame, node: Node, stream: Stream, ordinal: int, params: dict[str, Any], handle: Handle
) -> None:
    graph = frame.run.executable.program.graphs[node.attrs["callee"]]
    order = frame.order(node)
    name = graph.name.partition(".")[0]  # further graphs of a program are `name.2` ...
    root = stream.sub_program(name, ordinal, order)
    chain = frame.chain.branch() if frame.chain is not None else None
    callee = Frame(frame.run, graph, root, params, order, chain)
    callee.start()
    callee.dispatched.then(lambda _: root.close())
    handle.frame.set(callee)


# -- loops


def loop(frame: Frame, node: Node) -> Cell:
    run = _LoopRun(frame, node)
    frame.defer()
    frame.in_stream(node, run.prepare, run.give_up)
    return run.values


class _LoopRun:
    """A loop from its place in the program until all its passes have been started.

    It takes its place at the gates of all families that it walks or captures at once, and leaves
    each as soon as its passes have begun whatever they do there.
    """

    def __init__(self, frame: Frame, node: Node) -> None:
        self.frame = frame
        self.node = node
        self.values = ListCell()
        self._over = [self._outer(ref) for ref in node.attrs["over"]]
        self._captures = {p: self._outer(ref) for p, ref in node.attrs["captures"].items()}
        self._root: BodyRoot | None = None
        self._point: ForkPoint | None = None
        walked = [*self._over, *self._captures.values()]
        gates = [x.gate for x in walked if type(x) is Family and x.gate is not None]
        self._gates = list({id(gate): gate for gate in gates}.values())
        self._tickets = [_hold(gate) for gate in self._gates]
        self._chain: EffectChain | None = None
        self._close_chain: Callable[[], None] | None = None
        if frame.chain is not None:
            self._chain, self._close_chain = frame.chain.nest()

    def _outer(self, operand: Any) -> Any:
        found = self.frame.operand(operand)
        return found if type(operand) is Ref else as_cell(found)

    def prepare(self, stream: Stream) -> None:
        """The loop's stream is there: keep its state, wait for the lengths."""
        self._stream = stream
        if self.frame.body_root is not None and self.node.stream == ROOT_STREAM:
            self._root = self.frame.body_root
        else:
            self._root = self._keep(stream)
        lengths = [_length_of(x) for x in self._over]
        waits = [*self._tickets, *[x for x in lengths if isinstance(x, Cell)]]
        gather(waits, self._start)

    def _keep(self, stream: Stream) -> BodyRoot | None:
        """What the passes may need of the stream as it is now."""
        plan, node, order = self.frame.plan, self.node, self.frame.order(self.node)
        forks, reads = node.id in plan.forks_root, node.id in plan.reads_root
        if not forks and not reads:
            return None
        if forks:
            self._point = stream.fork_point(node.source, order)
        return BodyRoot(
            self._point,
            dict(stream.variables),
            stream.text(node.source, order) if reads else Cell.of(""),
            stream.messages(node.source, order) if reads else Cell.of([]),
        )

    def _start(self, error: BaseException | None) -> None:
        if error is not None:
            self.give_up(error)
            return
        try:
            columns = [_column(x) for x in self._over]
        except Exception as failure:
            self.give_up(self.frame.fail(self.node, failure))
            return
        views = {id(gate): Gate() for gate in self._gates}
        captures = {
            name: Family(x.branches, views[id(x.gate)]) if type(x) is Family and x.gate else x
            for name, x in self._captures.items()
        }
        passes = [
            self._pass(i, items, captures) for i, items in enumerate(zip(*columns, strict=False))
        ]
        self.values.give([body.result for body in passes])
        for gate in self._gates:
            views[id(gate)].enter([], _release(gate))
        gather([body.dispatched for body in passes], lambda _: self._end())

    def _pass(self, i: int, items: tuple[Any, ...], captures: dict[str, Any]) -> Frame:
        node, frame = self.node, self.frame
        assert node.body is not None, "a loop without a body"
        params = dict(zip(node.attrs["item_params"], items, strict=True))
        if node.attrs["index_param"]:
            params[node.attrs["index_param"]] = i
        params.update(captures)
        prefix = (*frame.order(node), i)
        body = Frame(frame.run, node.body, self._stream, params, prefix, self._chain, self._root)
        body.start()
        return body

    def give_up(self, error: BaseException) -> None:
        """There will be no passes."""
        self.values.fail(error)
        for gate, ticket in zip(self._gates, self._tickets, strict=True):
            ticket.then(_release(gate))
        self._end()

    def _end(self) -> None:
        if self._point is not None:
            self._point.close()
        if self._close_chain is not None:
            self._close_chain()
        self.frame.undefer()


def _hold(gate: Gate) -> Cell:
    ticket = Cell()
    gate.hold(lambda _: ticket.set(None))
    return ticket


def _release(gate: Gate) -> Callable[[Any], None]:
    return lambda _: gate.release()


def _length_of(x: Any) -> Any:
    """The cell that tells how often `x` can be walked; plain data tells it at once."""
    if type(x) is Family:
        return x.branches
    return x.items if isinstance(x, ListCell) else x


def _column(x: Any) -> Any:
    """One item a pass; items of a list may still be Cells."""
    if type(x) is Family:
        return range(len(x.branches.value))
    known = _length_of(x)
    return list(known.value if isinstance(known, Cell) else known)
