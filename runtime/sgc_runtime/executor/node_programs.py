"""Starts the nodes that run further graphs: sub-programs and loops over run-time lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, ROOT_STREAM, Node, Ref
from sgc_runtime.executor.cell import Cell, as_cell, gather
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.frame import BodyRoot, Frame
from sgc_runtime.executor.gate import Family
from sgc_runtime.executor.handle import Handle
from sgc_runtime.executor.operations import ForkPoint
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.stream import Stream


def sub_program(frame: Frame, node: Node) -> Handle:
    handle = Handle()
    params = _callee_params(frame, node)
    ordinal = frame.operand(node.attrs["ordinal"])
    if not isinstance(ordinal, Cell):
        frame.in_stream(
            node,
            lambda stream: _start_callee(frame, node, stream, ordinal, params, handle),
            handle.frame.fail,
        )
        return handle
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

    ordinal.then(ready)
    return handle


def _callee_params(frame: Frame, node: Node) -> dict[str, Any]:
    graph = frame.run.executable.program.graphs[node.attrs["callee"]]
    given = node.attrs["args"]
    params: dict[str, Any] = {}
    for param in graph.params:
        value = frame.operand(given[param.name]) if param.name in given else param.default
        if value is MISSING:
            error = InputError(f"{graph.name}: missing argument {param.name}; give a value")
            value = Cell.failed(frame.fail(node, error))
        params[param.name] = as_cell(value) if isinstance(value, tuple | list | dict) else value
    return params


def _start_callee(
    frame: Frame, node: Node, stream: Stream, ordinal: int, params: dict[str, Any], handle: Handle
) -> None:
    graph = frame.run.executable.program.graphs[node.attrs["callee"]]
    order = frame.order(node)
    root = stream.sub_program(graph.name, ordinal, order)
    chain = frame.chain.branch() if frame.chain is not None else None
    callee = Frame(frame.run, graph, root, params, order, chain)
    callee.start()
    callee.dispatched.then(lambda _: root.close())
    handle.frame.set(callee)


# -- loops


def loop(frame: Frame, node: Node) -> Cell:
    run = _LoopRun(frame, node)
    frame.started[node.id] = run.started
    frame.defer()
    frame.in_stream(node, run.prepare, run.give_up)
    return run.values


class _LoopRun:
    """A loop from its place in the program until all its passes have been started."""

    def __init__(self, frame: Frame, node: Node) -> None:
        self.frame = frame
        self.node = node
        self.values = Cell()
        self.started = Cell()
        self._over = [self._outer(ref) for ref in node.attrs["over"]]
        self._captures = {p: self._outer(ref) for p, ref in node.attrs["captures"].items()}
        self._root: BodyRoot | None = None
        self._point: ForkPoint | None = None
        self._families: list[Family] = []
        self._chain: EffectChain | None = None
        self._close_chain: Callable[[], None] | None = None
        if frame.chain is not None:
            self._chain, self._close_chain = frame.chain.nest()

    def _outer(self, operand: Any) -> Any:
        if type(operand) is Ref:
            found = self.frame.values[operand.node]
            return found.value if type(found) is Pending else found
        return as_cell(self.frame.operand(operand))

    def prepare(self, stream: Stream) -> None:
        """The loop's stream is there: keep its state, queue at the gates of all families."""
        self._stream = stream
        frame, node = self.frame, self.node
        if frame.body_root is not None and node.stream == ROOT_STREAM:
            self._root = frame.body_root
        else:
            self._root = self._keep(stream)
        walked = [*self._over, *self._captures.values()]
        self._families = list({id(f): f for f in walked if type(f) is Family and f.gate}.values())
        tickets = [self._hold(family) for family in self._families]
        lengths = [x.branches if type(x) is Family else x for x in self._over]
        after = node.attrs.get("after")
        before = frame.started.get(after.node) if type(after) is Ref else None
        waits = [*tickets, *([before] if before is not None else [])]
        waits += [x for x in lengths if isinstance(x, Cell)]
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

    def _hold(self, family: Family) -> Cell:
        ticket = Cell()
        assert family.gate is not None
        family.gate.hold(lambda _: ticket.set(None))
        return ticket

    def _start(self, error: BaseException | None) -> None:
        if error is not None:
            self.values.fail(error)
            self._finish()
            return
        try:
            columns = [self._column(x) for x in self._over]
        except Exception as failure:
            self.values.fail(self.frame.fail(self.node, failure))
            self._finish()
            return
        views = {id(family): family.view() for family in self._families}
        captures = {
            name: views[id(x)] if type(x) is Family and x.gate else x
            for name, x in self._captures.items()
        }
        passes = [
            self._pass(i, items, captures) for i, items in enumerate(zip(*columns, strict=False))
        ]
        as_cell([body.result for body in passes]).forward(self.values)
        gather([body.dispatched for body in passes], lambda _: self._finish())

    @staticmethod
    def _column(x: Any) -> Any:
        if type(x) is Family:
            return range(len(x.branches.value))
        return list(x.value if isinstance(x, Cell) else x)

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
        """The loop's stream will never be there."""
        self.values.fail(error)
        self._finish()

    def _finish(self) -> None:
        for family in self._families:
            assert family.gate is not None
            family.gate.release()
        if self._point is not None:
            self._point.close()
        if self._close_chain is not None:
            self._close_chain()
        self.started.set(None)
        self.frame.undefer()
