"""Text that is known across gens: what one forces at its end, constants, what the next begins with.

In `"A: " + gen(regex='"[a-z]+"') + ", B: " + gen(regex='"[a-z]+"')` the text `", B: "` is known
before the first gen ends, together with the quotation marks around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sgc_ir.graph import Graph, Node, Program, is_constant
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES, SamplingParams, normalize


@dataclass(frozen=True, slots=True)
class ForcedRun:
    """Known text of one stream, between free text.

    Attributes:
        graph: name of the graph (of a loop's body: that of the graph around it).
        stream: stream of the nodes, as `Node.stream`.
        parts: (node id, bytes that it gives to the run), in order; at least one of the nodes is a
            gen.
    """

    graph: str
    stream: int
    parts: tuple[tuple[int, bytes], ...]

    @property
    def data(self) -> bytes:
        """The text in bytes; it may begin or end inside of a character."""
        return b"".join(data for _, data in self.parts)


def forced_runs(program: Program) -> list[ForcedRun]:
    """The runs of all streams, in program order; those of constants alone are left out.

    Raises:
        ConstraintError: a gen's constraint cannot be used (`verify` refuses these).
    """
    found: list[ForcedRun] = []
    for graph in program.graphs.values():
        bodies = (node.body for node in graph.walk() if node.body is not None)
        for inner in (graph, *bodies):
            found += _runs(graph.name, inner)
    return found


def _runs(name: str, graph: Graph) -> Iterator[ForcedRun]:
    streams: dict[int, list[Node]] = {}
    for node in graph.nodes:
        if node.appends:
            streams.setdefault(node.stream, []).append(node)
    for stream, nodes in streams.items():
        run = _Run(name, stream)
        for node in nodes:
            yield from run.add(node)
        yield from run.end()


class _Run:
    def __init__(self, graph: str, stream: int) -> None:
        self._graph, self._stream = graph, stream
        self._parts: list[tuple[int, bytes]] = []
        self._has_gen = False

    def add(self, node: Node) -> Iterator[ForcedRun]:
        """Go on with a node; gives the run that it ends."""
        if node.op is Op.CONSTANT_TEXT:
            self._parts.append((node.id, node.attrs["text"].encode("utf-8", "surrogatepass")))
            return
        if node.control is not None or node.op is not Op.GEN:
            yield from self.end()
            return
        prefix, suffix, whole = _ends(node.attrs)
        self._put(node.id, prefix)
        if not whole:
            yield from self.end()
            self._put(node.id, suffix)

    def _put(self, node: int, data: bytes) -> None:
        if data:
            self._parts.append((node, data))
            self._has_gen = True

    def end(self) -> Iterator[ForcedRun]:
        if self._has_gen:
            yield ForcedRun(self._graph, self._stream, tuple(self._parts))
        self._parts, self._has_gen = [], False


def _ends(attrs: Mapping[str, Any]) -> tuple[bytes, bytes, bool]:
    """What a gen's text begins and ends with, and whether that is all of it; `max_tokens`, which
    may end it anywhere, is left aside."""
    from sgc_ir.automata.compile import constraint_automaton
    from sgc_ir.automata.ends import ends_of

    values = {k: v for k, v in attrs.items() if k in PARAM_NAMES}
    if not is_constant(values):
        return b"", b"", False
    params = SamplingParams(**normalize(values))
    if params.constraint is None or params.n != 1:
        return b"", b"", False
    prefix, suffix, whole = ends_of(constraint_automaton(params))
    if params.stop or params.stop_regex or params.stop_token_ids:
        return _before_stops(prefix, params), b"", False
    return prefix, suffix, whole


def _before_stops(prefix: bytes, params: SamplingParams) -> bytes:
    """What of a forced beginning no stop can take away."""
    if params.stop_regex or params.stop_token_ids:
        return b""
    stops = [stop.encode() for stop in params.stop]
    for at in range(len(prefix)):
        rest = prefix[at:]
        if any(rest.startswith(stop) or stop.startswith(rest) for stop in stops):
            return prefix[:at]
    return prefix


def report(program: Program) -> str:
    """One line a run: graph, nodes, text."""
    lines = []
    for run in forced_runs(program):
        nodes = " ".join(f"%{node}" for node in dict.fromkeys(node for node, _ in run.parts))
        text = run.data.decode("utf-8", "backslashreplace")
        lines.append(f"{run.graph}: {nodes}: {text!r}")
    return "\n".join(lines) + "\n" if lines else "no text is forced\n"
