"""The journal of one row, as the executor sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sgc_ir.errors import GenerationError, JournalError
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import Call
from sgc_runtime.executor.node_log import Finished
from sgc_runtime.executor.tools import IRREVERSIBLE, Tool
from sgc_runtime.journal.codec import pack, pack_results, unpack, unpack_results
from sgc_runtime.journal.digests import call_digest, tool_digest
from sgc_runtime.journal.entries import CallEnds
from sgc_runtime.journal.group_commit import GroupCommit
from sgc_runtime.journal.store import BEGUN, CALL, TOOL, Node


class RowLog:
    """See `NodeLog`.

    Args:
        found: what earlier runs left of the row; none of it is BEGUN.
    """

    def __init__(
        self, row: int, program: str, writer: GroupCommit, found: Iterable[Node] = ()
    ) -> None:
        self._row = row
        self._program = program
        self._writer = writer
        self._found = {node.path: node for node in found}
        self._begun: dict[str, bytes] = {}  # path -> digest of tools that run now

    def finished_call(self, call: Call) -> list[CallResult] | None:
        node = self._found.get(call.node)
        if node is None:
            return None
        asked = call_digest(call.params, call.prompt, call.seeds, call.end_of_turn)
        self._check(node, CALL, asked)
        assert node.data is not None
        return unpack_results(node.data)

    def record_call(self, call: Call, results: Sequence[CallResult]) -> None:
        self._writer.add(
            CallEnds(
                self._row,
                call.node,
                call.params,
                call.prompt,
                call.seeds,
                call.end_of_turn,
                pack_results(results),
            )
        )

    def finished_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Finished | None:
        found = self._found.get(node)
        if found is None:
            return None
        self._check(found, TOOL, tool_digest(tool.name, args, kwargs))
        assert found.data is not None
        return Finished(unpack(found.data))

    async def begin_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        asked = self._begun[node] = tool_digest(tool.name, args, kwargs)
        if tool.effect == IRREVERSIBLE:
            self._writer.add(Node(self._row, node, BEGUN, tool.name, asked, None))
            await self._synced()

    async def end_tool(self, node: str, tool: Tool, value: Any) -> None:
        asked = self._begun.pop(node)
        self._writer.add(Node(self._row, node, TOOL, tool.name, asked, pack(value)))
        if tool.effect == IRREVERSIBLE:
            await self._synced()

    async def _synced(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def settle(failure: JournalError | None) -> None:
            if future.done():  # the row was cancelled
                return
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)

        def done(failure: JournalError | None) -> None:
            loop.call_soon_threadsafe(settle, failure)

        self._writer.sync(done)
        await future

    def _check(self, node: Node, kind: str, asked: bytes) -> None:
        """Raise GenerationError unless the node was asked the same in the earlier run."""
        if node.kind == kind and node.digest == asked:
            return
        what = "prompt or parameters" if kind == CALL else "tool or arguments"
        raise GenerationError(
            f"the program does not repeat itself: this node had another {what} in the run that is "
            "resumed; let it depend on its arguments only, or start the run anew",
            program=self._program,
            instance=self._row,
            node=node.path,
        )


def unknown_outcome(node: Node) -> str:
    """What a user is told of an irreversible tool that began and was not recorded as ended."""
    place = f"{node.row}:{node.path}"
    return (
        f"outcome unknown: {node.tool} began in an earlier run and was not recorded as ended; find "
        f"out whether it took effect, then resume with --assume-done {place} or --rerun {place}"
    )
