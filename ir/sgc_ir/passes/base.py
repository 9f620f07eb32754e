"""What every pass takes and gives: a program, a context, a report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sgc_ir.graph import Graph, Node, Program, Source
from sgc_ir.paths import node_path, stream_paths


def count_words(text: str) -> int:
    """Tokens of a text where no tokenizer is at hand: its words."""
    return len(text.split())


@dataclass(frozen=True, slots=True)
class Context:
    """What passes know besides the program.

    Attributes:
        arguments: arguments of the main graph whose value is the same in every row of the run.
        refused: texts, slots as `{name}`, whose order must stay.
        rows: some of the rows that the program will run over, raw values by argument.
        count_tokens: tokens of a text; `unit` says what was counted.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    refused: frozenset[str] = frozenset()
    rows: Sequence[Mapping[str, Any]] = ()
    count_tokens: Callable[[str], int] = count_words
    unit: str = "words"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that a pass did.

    Attributes:
        node: path of the node that it did it to, as before the pass.
        text: what it did.
    """

    graph: str
    node: str
    source: Source
    text: str

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source.line else ""
        return f"{self.graph}: {self.node}{place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Report:
    """What a pass did, in program order; no changes: the program that came is the one that left.

    Attributes:
        remarks: what it might have done and did not, with the reason.
    """

    name: str
    changes: tuple[Change, ...] = ()
    remarks: tuple[Change, ...] = ()

    def __str__(self) -> str:
        """The pass in one line."""
        counted = len(self.changes)
        return f"{self.name}: {counted or 'no'} change{'' if counted == 1 else 's'}"


class Pass(Protocol):
    """A module of this room that is a pass; its docstring states what it requires and why it keeps
    the program's behaviour."""

    NAME: str

    def run(self, program: Program, context: Context) -> tuple[Program, Report]:
        """The program after the pass, and what was done."""


GraphPass = Callable[[Graph, "Notes"], Graph]


class Notes:
    """Collects the changes of one graph or body."""

    def __init__(self, graph: Graph, name: str, changes: list[Change]) -> None:
        self.name = name
        self._graph = graph
        self._changes = changes
        self._paths: dict[int, str] | None = None

    def add(self, node: Node, text: str) -> None:
        """Note that something was done to `node` of the graph as it came in."""
        self._changes.append(self.change(node, text))

    def change(self, node: Node, text: str) -> Change:
        """A change of `node`, or a remark about it, that is not noted yet."""
        return Change(self.name, self.path(node), node.source, text)

    def path(self, node: Node) -> str:
        """Path of a node of the graph as it came in."""
        if self._paths is None:
            self._paths = stream_paths(self._graph)
        return node_path(node, self._paths)


def each_graph(program: Program, name: str, change: GraphPass) -> tuple[Program, Report]:
    """Apply `change` to every graph and every loop's body, inner ones first; `name` is the pass.

    Graphs that nothing changed in are kept as the same objects.
    """
    changes: list[Change] = []

    def visit(graph: Graph, where: str) -> Graph:
        bodies = {n.id: visit(n.body, f"{where}.%{n.id}") for n in graph.nodes if n.body}
        if any(bodies[n.id] is not n.body for n in graph.nodes if n.id in bodies):
            nodes = (replace(n, body=bodies[n.id]) if n.id in bodies else n for n in graph.nodes)
            graph = replace(graph, nodes=tuple(nodes))
        return change(graph, Notes(graph, where, changes))

    graphs = {key: visit(graph, key) for key, graph in program.graphs.items()}
    if all(graphs[key] is graph for key, graph in program.graphs.items()):
        return program, Report(name)
    return replace(program, graphs=graphs), Report(name, tuple(changes))
