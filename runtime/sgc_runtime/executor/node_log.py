"""What the executor asks a journal: which nodes of a row are finished, and to note those that are.

The executor owns this protocol; `sgc_runtime.journal` implements it. A node is known by its dynamic
path. All methods belong to the event-loop thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import Call
from sgc_runtime.executor.tools import Tool


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a tool that ran in an earlier run."""

    value: Any


class NodeLog(Protocol):
    """The journal of one row."""

    def finished_call(self, call: Call) -> list[CallResult] | None:
        """The results of a model call that an earlier run finished, or None.

        Raises GenerationError when the node made another call then (another prompt or other
        parameters): the program does not repeat itself.
        """
        ...

    def record_call(self, call: Call, results: Sequence[CallResult]) -> None:
        """Note a finished model call; durable within 50 ms. Raises what has ended the writing."""
        ...

    def finished_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Finished | None:
        """The result of a tool that an earlier run finished, or None.

        Raises GenerationError when the node called another tool then, or with other arguments.
        """
        ...

    async def begin_tool(
        self, node: str, tool: Tool, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """A tool is about to run; for an irreversible one, returns when that is durable.

        A row with an irreversible tool that began in an earlier run and was not recorded as ended
        does not begin at all. Raises JournalError when it cannot be made durable.
        """
        ...

    async def end_tool(self, node: str, tool: Tool, value: Any) -> None:
        """A tool has given `value`; for an irreversible one, returns when that is durable.

        Raises JournalError when it cannot be made durable.
        """
        ...
