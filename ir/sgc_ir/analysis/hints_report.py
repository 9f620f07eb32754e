"""Hints of a program as text: what a run tells the engine of each call and fork."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sgc_ir.analysis.call_bounds import call_bounds
from sgc_ir.analysis.forecast import Range
from sgc_ir.analysis.hints import CallHints, ForkHints, GraphHints, graph_hints
from sgc_ir.analysis.needs import Amount
from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.analysis.static_prefix import Piece
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_ir.paths import captured_forks, node_path, stream_paths

_SHOWN = 60  # characters of a beginning
_HEAD = ("node", "variable", "tokens", "read again by", "next use")


def report(program: Program, defaults: SamplingParams) -> str:
    """Of each graph what its instances begin with and generate, and a table of its calls and
    forks."""
    return "\n\n".join(_Report(program, defaults).graphs()) + "\n"


class _Report:
    def __init__(self, program: Program, defaults: SamplingParams) -> None:
        self._program, self._defaults = program, defaults
        self._hints = graph_hints(program, self._most)
        self._needs = Needs(program, self._all_samples)

    def _most(self, node: Node) -> int | None:
        return call_bounds(node, self._defaults)[1]

    def _all_samples(self, node: Node) -> int | None:
        most, samples = self._most(node), node.attrs.get("n", self._defaults.n)
        return None if most is None or not isinstance(samples, int) else most * samples

    def graphs(self) -> Iterator[str]:
        for graph in self._program.graphs.values():
            hints = self._hints[id(graph)]
            prefix = hints.streams[ROOT_STREAM].prefix
            begin = f"begins with {_shown(prefix)}" if prefix else "has no constant beginning"
            need = _amount(self._needs.graph(graph).amount({}))
            rows = list(self._rows(graph, "", {}))
            lines = [f"{graph.name} {begin}; it generates {need}", *_table([_HEAD, *rows])]
            yield "\n".join(lines)

    def _rows(self, graph: Graph, root: str, forks: dict[str, str]) -> Iterator[Sequence[str]]:
        hints, paths = self._hints[id(graph)], stream_paths(graph, root, forks)
        for node in graph.nodes:
            path = node_path(node, paths)
            if node.id in hints.calls:
                yield self._call(node, path, hints.calls[node.id])
            elif node.op is Op.FORK and node.id in hints.forks:
                yield _fork(node, path, hints)
            elif node.body is not None:
                inner = captured_forks(graph, node, paths, forks)
                yield from self._rows(node.body, paths.get(node.stream, "?"), inner)

    def _call(self, node: Node, path: str, hints: CallHints) -> Sequence[str]:
        fewest, most = call_bounds(node, self._defaults)
        tokens = Range(fewest, most)
        return path, node.attrs["name"], str(tokens), _count(hints.readers), _use(hints)


def _fork(node: Node, path: str, hints: GraphHints) -> Sequence[str]:
    found: ForkHints = hints.forks[node.id]
    width = node.attrs.get("width", "run")
    shown = f"{width} branches" if isinstance(width, int) else "branches"
    known = None if found.open or found.behind is None else found.calls + found.behind
    return path, shown, "", _count(known), ""


def _count(readers: int | None) -> str:
    return "what the run decides" if readers is None else "nobody" if not readers else str(readers)


def _use(hints: CallHints) -> str:
    if hints.readers == 0:
        return ""
    if hints.next_use is None:
        return "?"
    return f"{hints.next_use} tokens later" if hints.next_use else "at once"


def _amount(amount: Amount) -> str:
    return f"at most {amount.tokens} tokens" + (" and what the run decides" if amount.open else "")


def _shown(prefix: Sequence[Piece]) -> str:
    marks = {"begin": "<{}>", "end": "</>", "text": "{}"}
    text = "".join(marks[kind].format(data) for kind, data in prefix)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...") + f" ({len(text)})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in cells]
