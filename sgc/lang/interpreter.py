"""Runs one row of a program as written: its body in a thread, its streams on the event loop."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any

from sgc.lang.body import Body
from sgc.lang.function import ProgramSpec
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.state import FinishedState, finished
from sgc_runtime.executor.stream import Stream


async def interpret(
    spec: ProgramSpec, values: Mapping[str, Any], ctx: RunContext, context: contextvars.Context
) -> FinishedState:
    """Run the body of `spec` with all arguments in `values`; to be awaited on the runtime's loop.

    The row ends when its body, its sub-programs and all of their streams have ended. Its error is
    in the state. Cancelling stops the row; a body that computes ends at its next primitive.
    """
    root = Stream(ctx)
    return await run_body(Body(ctx, spec, root), values, context, "interpreted")


async def run_body(
    body: Body, values: Mapping[str, Any], context: contextvars.Context, mode: str
) -> FinishedState:
    """Run the body of a row to its end; gives the row's state, which names `mode`."""
    ctx = body.ctx
    ctx.stream_text = True  # the body may ask for `s.stream("v")` at any time
    done = await ctx.run_to_end(lambda: body.start(values, context))
    return _finished(body.root, done, ctx, mode)


def _finished(root: Stream, done: Cell, ctx: RunContext, mode: str) -> FinishedState:
    error = ctx.first_error() or done.error
    value = finished(done.value) if error is None else None
    return FinishedState(root, value=value, error=error, mode=mode)
