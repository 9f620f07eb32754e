"""A tool as a node: it has a path and a place in program order, but takes no turn in a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.core import Op, StreamCore
from sgc_runtime.executor.dispatch import call_tool
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.tools import Tool


class ToolCall(Op):
    """One call; `result` gets plain JSON data, or a GenerationError whose cause is a ToolError.

    Attributes:
        core: the stream with which the call may be cancelled; None for a tool with effects.
    """

    __slots__ = ("_ordinal", "_result", "core")

    def __init__(self, result: Cell, ordinal: int, source: Any, order: Order) -> None:
        super().__init__(None, source, order)
        self._result = result
        self._ordinal = ordinal
        self.core: StreamCore | None = None

    def path(self, core: StreamCore) -> str:
        return core.child_path("g", self._ordinal, "", core)

    def begin(
        self, core: StreamCore, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """Start the tool, unless the row or the stream was cancelled."""
        ended = core.ctx.cancelled or core.cut
        if ended is not None:
            self._result.fail(ended)
            return
        self.core = core if tool.effect == "pure" else None
        core.ctx.enter()
        node = self.path(core)
        core.ctx.spawn(self._call(core, node, tool, args, kwargs), node, self)

    async def _call(
        self,
        core: StreamCore,
        node: str,
        tool: Tool,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        try:
            value = await call_tool(core, node, tool, args, kwargs)
            if core.cut is not None:
                self._result.fail(core.cut)
            else:
                self._result.set(value)
        except asyncio.CancelledError as cancelled:
            self._result.fail(core.ctx.cancelled or core.cut or cancelled)
        except Exception as error:
            failure = core.wrap(self, error)
            core.ctx.fail(failure, self.order)
            self._result.fail(failure)
        finally:
            core.ctx.leave()
