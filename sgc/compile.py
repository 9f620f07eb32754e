"""Compiled programs: made by the tracer, saved as artefacts, loaded without their source."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgc.common_values import common_values
from sgc.lang.function import ProgramSpec
from sgc.lang.tools import Tool, noting_tools, tool_named
from sgc.runnable import Execute, NodeNames, Runnable, Values
from sgc_ir.errors import InputError
from sgc_ir.graph import Graph
from sgc_ir.graph import Program as GraphProgram
from sgc_ir.ops import Op
from sgc_runtime.executor.arguments import Signature
from sgc_runtime.executor.tools import IRREVERSIBLE, check_tools

if TYPE_CHECKING:
    from sgc_ir.passes.base import Context, Report
    from sgc_runtime.executor.context import RunContext
    from sgc_runtime.executor.state import FinishedState


# Over the graph of a batch whose rows have values in common.
ROW_PASSES = ("rows", "fold", "prune", "texts")


class CompiledProgram(Runnable):
    """A graph with the tools that it calls.

    Attributes:
        graph: the graphs (`sgc_ir.graph.Program`).
        reports: what each pass did that made them.
    """

    def __init__(
        self, graph: GraphProgram, tools: Iterable[Tool] = (), reports: Iterable[Report] = ()
    ) -> None:
        self.graph = graph
        self.reports = tuple(reports)
        self._tools = {tool.name: tool for tool in tools}

    def __repr__(self) -> str:
        nodes = sum(len(graph.nodes) for graph in self.graph.graphs.values())
        return f"<sgc compiled program {self.name}, {nodes} nodes>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the artefact; a file that is there is replaced at once or not at all.

        Raises OSError when it cannot be written.
        """
        from sgc.files import write_atomically
        from sgc_ir.codec import encode

        write_atomically(Path(path), encode(self.graph))

    @property
    def name(self) -> str:
        return self.graph.main

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that the graph calls, by name. Raises ToolError for one that is missing."""
        return find_tools(self.graph, self._tools)

    def for_rows(self, arguments: Values) -> CompiledProgram:
        """The program for rows in which `arguments` are the same: they are constants of its graph.

        It takes the same arguments, and rows must still give these values.
        """
        from sgc_ir.passes.base import Context
        from sgc_ir.passes.manager import run_passes

        if not arguments:
            return self
        graph, reports = run_passes(self.graph, ROW_PASSES, Context(arguments))
        return CompiledProgram(graph, self._tools.values(), reports)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        return tuple([p.name for p in self.graph.graph.params])

    def arguments(self, args: tuple[Any, ...], kwargs: Values) -> dict[str, Any]:
        return Signature(self.name, self.graph.graph.params).arguments(args, kwargs)

    def node_names(self) -> frozenset[str]:
        """Variables that the gens and selects of all graphs fill, and the tools that they call."""
        graphs = self.graph.graphs.values()
        return frozenset(self.graph.tools).union(*(_variables(graph) for graph in graphs))

    @property
    def execute(self) -> Execute:
        """How to execute a row. Raises ToolError for a tool that is missing."""
        return self._executor("compiled")[1]

    def _for_batch(self, rows: Sequence[Any]) -> CompiledProgram:
        return self.for_rows(common_values(self.values_or_none(row) for row in rows))

    def values_or_none(self, row: Any) -> Mapping[str, Any] | None:
        """The arguments of a row, None for one that cannot run."""
        try:
            return None if isinstance(row, Exception) else self._row_values(row)
        except InputError:
            return None

    def irreversible_tools(self) -> frozenset[str]:
        return frozenset(n for n, effect in self.graph.tools.items() if effect == IRREVERSIBLE)

    def _executor(self, mode: str) -> tuple[str, Execute, NodeNames | None]:
        if mode == "interpreted":
            raise InputError(f"{self.name} is compiled; run the program itself to interpret it")
        tools = self.tools

        async def execute_row(
            values: Values, ctx: RunContext, context: contextvars.Context
        ) -> FinishedState:
            from sgc_runtime.executor.graph_executor import execute

            return await execute(self.graph, _given(self.graph, values), ctx, tools)

        return "compiled", execute_row, self.node_names


def _variables(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op in (Op.GEN, Op.SELECT):
            yield node.attrs["name"]
        if node.body is not None:
            yield from _variables(node.body)


def _given(graph: GraphProgram, values: Values) -> dict[str, Any]:
    """Values of the graph's own parameters without defaults, which are not checked against their
    annotation (`x: int = None`); arguments that were bound are constants of the graph."""
    return {
        param.name: values[param.name]
        for param in graph.graph.params
        if param.name in values and values[param.name] is not param.default
    }


def compile_spec(
    spec: ProgramSpec, passes: Sequence[str] | None = None, context: Context | None = None
) -> CompiledProgram:
    """Trace `spec`, its bound arguments as constants, and run passes over the graph.

    Args:
        passes: names of `sgc_ir.passes.manager.PASSES`; the default ones, if not given.
        context: what the passes know.

    Raises CompileError, and InputError for an unknown pass.
    """
    from sgc.trace.tracer import trace_program
    from sgc_ir.passes.manager import check_names, run_passes
    from sgc_ir.verify import verify

    if passes is not None:
        passes = check_names(passes)
    with noting_tools() as tools:
        graph = trace_program(spec, spec.bound)
    verify(graph)
    graph, reports = run_passes(graph, passes, context)
    return CompiledProgram(graph, tools.values(), reports)


def load(path: str | os.PathLike[str], tools: Iterable[Tool] = ()) -> CompiledProgram:
    """Read an artefact; no code of it runs.

    Args:
        tools: made by `@sgc.tool`; they go before those registered in this process.

    Raises ArtifactError for a file that cannot be read or is no artefact of this version,
    ToolError when a tool that it calls is missing.
    """
    from sgc_ir.codec import read_artifact

    graph = read_artifact(Path(path))
    program = CompiledProgram(graph, tools)
    find_tools(graph, program._tools)
    return program


def find_tools(graph: GraphProgram, own: Mapping[str, Tool]) -> dict[str, Tool]:
    """The tools that `graph` calls, by name; `own` ones go before those of this process.

    Raises ToolError for one that is missing, or whose effect is another one than when the program
    was compiled.
    """
    found = {name: own[name] if name in own else tool_named(name) for name in graph.tools}
    check_tools(graph.tools, found)
    return found
