"""When the calls of a graph are issued at the latest, in tokens generated one after another.

Every call takes its bound of tokens, all that is ready runs side by side, texts and expressions
take no time. A tool, a loop and what has no bound take a time that is not known: who waits for
more of them than another does, is later by a time that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, forks_of, iter_refs
from sgc_ir.ops import OPS, Op


class Time(NamedTuple):
    """A point of time: so many tokens, and so many waits of unknown length."""

    tokens: int = 0
    waits: int = 0

    def since(self, end: Time) -> int | None:
        """Tokens from `end` until then, 0 if that was before; None: not known."""
        return None if self.waits > end.waits else max(0, self.tokens - end.tokens)


def latest(times: Iterable[Time]) -> Time:
    """When all of them have passed."""
    found = list(times)
    tokens = max((time.tokens for time in found), default=0)
    return Time(tokens, max((time.waits for time in found), default=0))


class Clock:
    """How long nodes take.

    Args:
        bound: tokens of one sample of a gen or select at most; None: the run decides.
    """

    def __init__(self, program: Program, bound: Callable[[Node], int | None]) -> None:
        self._program, self.bound = program, bound
        self._graphs: dict[str, Time] = {}
        self._open: set[str] = set()

    def graph(self, name: str) -> Time:
        """How long a graph takes as a whole; one that calls itself an unknown time."""
        if name in self._open:
            return Time(0, 1)
        found = self._graphs.get(name)
        if found is None:
            self._open.add(name)
            times = graph_times(self._program.graphs[name], self)
            self._open.discard(name)
            found = self._graphs[name] = latest(end for _, end in times.values())
        return found


def graph_times(graph: Graph, clock: Clock) -> dict[int, tuple[Time, Time]]:
    """Node -> when it begins and when it has ended."""
    return _Times(graph, clock).run()


class _Times:
    def __init__(self, graph: Graph, clock: Clock) -> None:
        self._graph, self._clock = graph, clock
        self._times: dict[int, tuple[Time, Time]] = {}
        self._streams: dict[int, Time] = {ROOT_STREAM: Time()}
        self._branches = branches_of(graph)

    def run(self) -> dict[int, tuple[Time, Time]]:
        for node in self._graph.nodes:
            begin = self._begin(node)
            end = self._end(node, begin)
            self._times[node.id] = (begin, end)
            self._move(node, end)
        return self._times

    def _begin(self, node: Node) -> Time:
        waits = [self._times[ref.node][1] for v in node.attrs.values() for ref in iter_refs(v)]
        if node.op is Op.JOIN:  # waits for nothing: who reads what it made does
            waits = []
        if node.control is not None:
            waits.append(self._times[node.control[0]][1])
        if self._takes_turn(node):
            waits.append(self._streams.get(node.stream, Time()))
        if node.op is Op.JOIN and node.attrs["mode"] == "append":
            branches = self._branches.get(node.attrs["fork"].node, ())
            waits += [self._streams[at] for at in branches if at in self._streams]
        return latest(waits)

    def _end(self, node: Node, begin: Time) -> Time:
        if node.op in (Op.GEN, Op.SELECT):
            took = self._clock.bound(node)
            return later(begin, Time(0, 1) if took is None else Time(took))
        if node.op is Op.CALL:
            return later(begin, Time(0, 1))
        if node.op is Op.SUB_PROGRAM:
            return later(begin, self._clock.graph(node.attrs["callee"]))
        if node.body is not None:
            inner = latest(end for _, end in graph_times(node.body, self._clock).values())
            # How many passes there are one after another is not known; without calls they take
            # no time.
            return later(begin, Time(inner.tokens, inner.waits + 1)) if any(inner) else begin
        if node.op is Op.JOIN and node.attrs["mode"] == "gather":
            refs = [ref.node for ref in iter_refs(node.attrs.get("vars"))]
            ends = [self._times[at][1] for at in refs]
            return latest([begin, *ends])
        return begin

    def _move(self, node: Node, end: Time) -> None:
        if node.op is Op.GET_FORK_ITEM:
            ends = [self._times[fork][1] for fork in forks_of(node)]
            self._streams[node.id] = latest([end, *ends])
        elif node.op is Op.JOIN and node.attrs["mode"] == "gather":
            pass
        elif self._takes_turn(node):
            self._streams[node.stream] = end

    def _takes_turn(self, node: Node) -> bool:
        is_own_text = node.attrs.get("field") in ("stream_text", "stream_messages")
        return OPS[node.op].in_stream or node.appends or node.body is not None or is_own_text


def branches_of(graph: Graph) -> dict[int, list[int]]:
    """Fork -> its branches, by the nodes that open them."""
    found: dict[int, list[int]] = {}
    for node in graph.nodes:
        if node.op is Op.GET_FORK_ITEM:
            for fork in forks_of(node):
                found.setdefault(fork, []).append(node.id)
    return found


def later(begin: Time, took: Time) -> Time:
    """The point of time so long behind another one."""
    return Time(begin.tokens + took.tokens, begin.waits + took.waits)
