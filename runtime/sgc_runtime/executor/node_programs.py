"""Starts sub-programs: graphs that run in streams of their own."""

from __future__ import annotations

from typing import Any

from sgc_ir.analysis.needs import inner_sizes
from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, Node, Param
from sgc_ir.types import check_value
from sgc_runtime.executor.cell import Cell, as_cell
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.frame import Frame
from sgc_runtime.executor.frames import make_frame
from sgc_runtime.executor.handle import Handle
from sgc_runtime.executor.stream import Stream


def sub_program(frame: Frame, node: Node) -> Handle:
    handle = Handle()
    params = _callee_params(frame, node)
    chain = frame.chain.branch() if frame.chain is not None else None
    frame.defer()

    def ready(cell: Cell) -> None:
        if cell.error is not None:
            handle.frame.fail(cell.error)
        else:
            frame.in_stream(
                node,
                lambda stream: _start_callee(
                    frame, node, stream, cell.value, params, chain, handle
                ),
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
    frame: Frame,
    node: Node,
    stream: Stream,
    ordinal: int,
    params: dict[str, Any],
    chain: EffectChain | None,
    handle: Handle,
) -> None:
    graph = frame.run.executable.program.graphs[node.attrs["callee"]]
    order = frame.order(node)
    name = graph.name.partition(".")[0]  # further graphs of a program are `name.2` ...
    root = stream.sub_program(name, ordinal, order)
    handle.root.set(root.core)
    lives = frame.run.lives.get(id(graph))
    if lives is not None:
        root.core.life = lives.begin()
    callee = make_frame(frame.run, graph, root, params, order, chain)
    if frame.run.needs is not None:
        callee.sizes = inner_sizes(frame.run.needs.part(node)[2], frame.sizes)
    callee.start()
    callee.dispatched.then(lambda _: root.close())
    callee.when_returned(lambda: handle.frame.set(callee))
