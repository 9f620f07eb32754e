"""One call of a tool by an interpreted program."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgc.lang.tools import Tool
from sgc_ir.errors import GenerationError
from sgc_ir.graph import Source
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.context import Order
from sgc_runtime.executor.stream import Stream
from sgc_runtime.executor.tools import run_tool


@dataclass(frozen=True)
class ToolCall:
    """A tool with the arguments of one call."""

    tool: Tool
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    source: Source

    def start(self, stream: Stream) -> Cell:
        """Start the tool as the next `g` of `stream`; the cell gets its result.

        To be called on the event loop. The row waits for the tool, and fails with it.
        """
        result = Cell()
        ordinal, order = stream.take_ordinal("g"), stream.scope.order()
        node = f"{stream.path}/g{ordinal}" if stream.path else f"g{ordinal}"
        stream.ctx.enter()
        stream.ctx.spawn(self._run(stream, node, order, result))
        return result

    async def _run(self, stream: Stream, node: str, order: Order, result: Cell) -> None:
        try:
            result.set(await run_tool(self.tool, self.args, self.kwargs))
        except asyncio.CancelledError as error:
            result.fail(stream.ctx.cancelled or error)
            raise
        except Exception as error:
            failure = self._failure(stream, node, error)
            stream.ctx.fail(failure, order)
            result.fail(failure)
        finally:
            stream.ctx.leave()

    def _failure(self, stream: Stream, node: str, cause: Exception) -> GenerationError:
        failure = GenerationError(
            str(cause),
            program=stream.program,
            instance=stream.ctx.row,
            node=node,
            source=str(self.source) or None,
        )
        failure.__cause__ = cause
        return failure
