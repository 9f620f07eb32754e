"""A traced region, and one row to which it is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sgc.breaks.exits import Ended
from sgc.lang.tools import Tool
from sgc.trace.stream import Stream as TracedStream
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_runtime.executor.executable import Executable
from sgc_runtime.executor.stream import Stream

_BOOKKEEPING = (Op.ARGUMENT, Op.RETURN, Op.MERGE)


@dataclass(eq=False)
class RegionCode:
    """What does not depend on the row.

    Attributes:
        program: the region as a program of its own; None where nothing is left to a run.
        how: the operand that says with which flow code it is left.
        taken: number of statements. arguments: node -> name of a parameter of the graph.
        is_general: no value of the row is a constant of it that another row need not have.
        before: what the tracer's streams held at first, by their ids. tools: by their names.
    """

    program: Program | None
    how: Any
    taken: int
    is_general: bool
    arguments: Mapping[int, str]
    before: Mapping[int, Mapping[str, Any]]
    tools: Mapping[str, Tool]

    @cached_property
    def executable(self) -> Executable:
        """What the runs of all rows share. Event-loop thread only."""
        assert self.program is not None, "a region without nodes"
        return Executable(self.program)

    @cached_property
    def num_nodes(self) -> int:
        """Nodes that do something."""
        assert self.program is not None, "a region without nodes"
        return sum(node.op not in _BOOKKEEPING for node in self.program.walk())


@dataclass(eq=False)
class BoundRegion:
    """A region and what it means in one row.

    Attributes:
        ends: flow code -> the state with which the region is left by it (0: at its end).
        params: of the graph. live: id of an object of the tracer -> (it, what it stands for).
        streams: the tracer's streams, with those that they stand for.
    """

    code: RegionCode
    ends: Mapping[int, Ended]
    params: Mapping[str, Any]
    live: dict[int, tuple[Any, Any]]
    streams: list[tuple[TracedStream, Stream]]
