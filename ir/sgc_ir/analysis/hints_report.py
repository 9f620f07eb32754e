"""Hints of a program as text: what a run tells the engine of each call and fork."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sgc_ir.analysis.call_bounds import call_bounds
from sgc_ir.analysis.forecast import Range
from sgc_ir.analysis.hints import CallHints, GraphHints, graph_hints
from sgc_ir.analysis.hints_time import branches_of
from sgc_ir.analysis.needs import Amount
from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.analysis.static_prefix import Piece
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, forks_of
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_ir.paths import captured_forks, node_path, stream_paths

_SHOWN = 60  # characters of a beginning
_HEAD = ("node", "variable", "tokens", "read again by", "next use", "constant beginning")


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
            need = _amount(self._least(graph), self._needs.graph(graph).amount({}))
            rows = list(self._rows(graph, "", {}))
            lines = [f"{graph.name} {begin}; it generates {need}", *_table([_HEAD, *rows])]
            yield "\n".join(lines)

    def _rows(self, graph: Graph, root: str, forks: dict[str, str]) -> Iterator[Sequence[str]]:
        hints, paths = self._hints[id(graph)], stream_paths(graph, root, forks)
        for node in graph.nodes:
            path = node_path(node, paths)
            if node.id in hints.calls:
                yield self._call(node, path, hints)
            elif node.op is Op.FORK and node.id in hints.forks:
                yield self._fork(graph, node, path, hints)
            elif node.body is not None:
                inner = captured_forks(graph, node, paths, forks)
                yield from self._rows(node.body, paths.get(node.stream, "?"), inner)

    def _call(self, node: Node, path: str, hints: GraphHints) -> Sequence[str]:
        found = hints.calls[node.id]
        tokens, readers = Range(*call_bounds(node, self._defaults)), _count(found.readers)
        constant = _constant(hints, [node.stream])
        return path, node.attrs["name"], str(tokens), readers, _use(found), constant

    def _fork(self, graph: Graph, node: Node, path: str, hints: GraphHints) -> Sequence[str]:
        found = hints.forks[node.id]
        width = node.attrs.get("width", "run")
        shown = f"{width} branches" if isinstance(width, int) else "branches"
        known = None if found.open or found.behind is None else found.calls + found.behind
        inside = [n for n in graph.nodes if n.id in hints.calls and _is_below(n, node, graph)]
        most = None if found.open else _sum(self._all_samples(n) for n in inside)
        tokens = str(Range(sum(map(self._fewest, inside)), most))
        branches = branches_of(graph).get(node.id, [node.stream])
        return path, shown, tokens, _count(known), "", _constant(hints, branches)

    def _fewest(self, node: Node) -> int:
        """Tokens of all samples; none for certain in an arm."""
        samples = node.attrs.get("n", self._defaults.n)
        certain = samples if isinstance(samples, int) and node.control is None else 0
        return certain * call_bounds(node, self._defaults)[0]

    def _least(self, graph: Graph, callers: frozenset[str] = frozenset()) -> int:
        """Tokens that a graph generates for certain; passes of loops are not."""
        if graph.name in callers:
            return 0
        found = sum(self._fewest(n) for n in graph.nodes if n.op in (Op.GEN, Op.SELECT))
        for node in graph.nodes:
            if node.op is Op.SUB_PROGRAM and node.control is None:
                callee = self._program.graphs[node.attrs["callee"]]
                found += self._least(callee, callers | {graph.name})
        return found


def _is_below(call: Node, fork: Node, graph: Graph) -> bool:
    """Whether a call stands in a branch of a fork, or in one that began there."""
    at = call.stream
    while at != ROOT_STREAM:
        node = graph.nodes[at]
        if node.op is Op.GET_FORK_ITEM:
            if fork.id in forks_of(node):
                return True
            at = node.attrs["fork"].node
        elif node.op is Op.FORK:
            at = node.stream
        else:
            return False
    return False


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if None in found else sum(n for n in found if n is not None)


def _constant(hints: GraphHints, streams: Iterable[int]) -> str:
    """Characters that the streams begin with in every instance, at least."""
    prefixes = [hints.streams[at].prefix for at in streams if at in hints.streams]
    lengths = [sum(len(p.data) for p in prefix if p.kind == "text") for prefix in prefixes]
    least = min(lengths, default=0)
    return f"{least} characters" if least else ""


def _count(readers: int | None) -> str:
    return "what the run decides" if readers is None else "nobody" if not readers else str(readers)


def _use(hints: CallHints) -> str:
    if hints.readers == 0:
        return ""
    if hints.next_use is None:
        return "?"
    return f"{hints.next_use} tokens later" if hints.next_use else "at once"


def _amount(least: int, most: Amount) -> str:
    known = f"{Range(least, most.tokens)} tokens"
    return f"{known}, and what the run decides" if most.open else known


def _shown(prefix: Sequence[Piece]) -> str:
    marks = {"begin": "<{}>", "end": "</>", "text": "{}"}
    text = "".join(marks[kind].format(data) for kind, data in prefix)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...") + f" ({len(text)})"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = ([c.ljust(w) for c, w in zip(row, widths, strict=True)] for row in rows)
    return ["  " + "  ".join(row).rstrip() for row in cells]
