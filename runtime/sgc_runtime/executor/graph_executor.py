"""Executes a compiled program: every node starts as soon as its own inputs are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.analysis.needs import Size, size_of
from sgc_ir.errors import GenerationError
from sgc_ir.graph import Node, Program
from sgc_ir.ops import Op
from sgc_runtime.executor import node_data, node_loops, node_programs, node_race, node_streams
from sgc_runtime.executor.arguments import Signature
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.executable import Executable, executable_of
from sgc_runtime.executor.frame import Frame, GraphRun
from sgc_runtime.executor.frames import make_frame
from sgc_runtime.executor.scope import Scope
from sgc_runtime.executor.state import FinishedState, finished
from sgc_runtime.executor.stream import Stream
from sgc_runtime.executor.to_come import ToCome
from sgc_runtime.executor.tools import Tool, check_tools

_HANDLERS: dict[Op, Callable[[Frame, Node], Any]] = {
    Op.CONSTANT_TEXT: node_data.constant_text,
    Op.ARGUMENT: node_data.argument,
    Op.VARIABLE: node_data.variable,
    Op.EXPR: node_data.expression,
    Op.GEN: node_streams.model_call,
    Op.SELECT: node_streams.model_call,
    Op.FORK: node_streams.fork,
    Op.GET_FORK_ITEM: node_streams.get_fork_item,
    Op.JOIN: node_streams.join,
    Op.ROLE_BEGIN: node_streams.role_begin,
    Op.ROLE_END: node_streams.role_end,
    Op.IMAGE: node_streams.media,
    Op.VIDEO: node_streams.media,
    Op.CALL: node_data.tool_call,
    Op.SUB_PROGRAM: node_programs.sub_program,
    Op.FIRST: node_race.first,
    Op.PREFIX_HINT: node_streams.prefix_hint,
    Op.LOOP: node_loops.loop,
    Op.RETURN: node_data.return_,
}
_RACING = {**_HANDLERS, Op.VARIABLE: node_race.variable}


def handlers_of(executable: Executable) -> dict[Op, Callable[[Frame, Node], Any]]:
    """What starts the nodes of a program."""
    return _RACING if executable.has_races else _HANDLERS


async def execute(
    program: Program,
    args: Mapping[str, Any],
    ctx: RunContext,
    tools: Mapping[str, Tool] | None = None,
) -> FinishedState:
    """Run one row of `program`; to be awaited on the runtime's event loop.

    The state has the row's error, if there is one. Raises only what is known before the row
    begins: InputError for the arguments, ToolError for a missing tool. Cancelling it cancels the
    calls in flight.
    """
    executable = executable_of(program)
    check_tools(program.tools, tools or {})
    params = Signature(program.graph.name, program.graph.params).arguments((), args)
    ctx.scope = Scope(program.graph.name)
    root = Stream(ctx)
    chain = EffectChain() if executable.in_order else None
    sizes = {name: size_of(value) for name, value in params.items()} if ctx.tells else {}
    run = _run(executable, root, sizes, tools or {})
    frame = make_frame(run, program.graph, root, params, (), chain)
    frame.sizes = sizes

    def begin() -> None:
        ctx.enter()
        frame.start()
        frame.dispatched.then(lambda _: root.close())
        ctx.leave()

    await ctx.run_to_end(begin)
    return _state(frame, program)


def _run(
    executable: Executable, root: Stream, sizes: Mapping[str, Size], tools: Mapping[str, Tool]
) -> GraphRun:
    """What the frames of a row share; with hints the row's context and root know what is to
    come."""
    ctx, graph = root.ctx, executable.program.graph
    handlers = handlers_of(executable)
    if not ctx.tells:
        return GraphRun(executable, tools, handlers, {})
    lives, needs = executable.lives(ctx.defaults.params), executable.needs(ctx.defaults.params)
    ctx.to_come = ToCome(needs.graph(graph).amount(sizes))
    root.core.life = lives[id(graph)].begin()
    return GraphRun(executable, tools, handlers, lives, needs)


def _state(frame: Frame, program: Program) -> FinishedState:
    ctx = frame.root.ctx
    error = ctx.first_error() or frame.result.error
    if error is None and not (frame.dispatched.done and frame.result.done):
        error = GenerationError(
            "the graph came to a halt before its end; this is a fault of sgc, report it",
            program=program.main,
            instance=ctx.row,
        )
    return FinishedState(
        frame.root,
        variables=frame.variables,
        value=finished(frame.result.value) if error is None else None,
        error=error,
        mode="compiled",
    )
