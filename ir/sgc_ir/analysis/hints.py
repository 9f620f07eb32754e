"""What a graph tells about the life of its prompts: who reads them again, and when at the soonest.

For each call: how many later calls have its end in their prompts, and how many tokens are
generated one after another until the first of them is issued; for each stream how many calls it
and its branches make; for each stream the constant texts that it begins with. Time is counted in
tokens (`hints_time`), with every call at its bound. Numbers hold for all paths together, so they
are upper bounds where the program branches; what only the run knows (passes of loops, branches of
forks that loops walk) is left open.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sgc_ir.analysis.hints_places import CALLS, Place, Places
from sgc_ir.analysis.hints_time import Clock, Time, branches_of, graph_times, later, latest
from sgc_ir.analysis.static_prefix import Piece, StaticPrefixes, shared_branches, static_prefixes
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref, forks_of
from sgc_ir.ops import Op


class CallHints(NamedTuple):
    """What is known of a gen or select before a run.

    Attributes:
        readers: calls that have its end in their prompts, at most; None: not known.
        next_use: tokens generated one after another from its end until the first of them is
            issued, at most; None: not known, or there is none.
        forks: for the places where its stream forked off, and the streams around it did, from the
            innermost: tokens from its end until the next call that reads the prompt up to there;
            None: not known, or none comes behind it.
    """

    readers: int | None
    next_use: int | None
    forks: tuple[int | None, ...] = ()


class StreamHints(NamedTuple):
    """A stream of a graph.

    Attributes:
        calls: that it and its branches make, at most; those of loops are not among them.
        open: how many loops there are that make further ones.
        alone: no other stream goes on from its end, and it ends where the graph does.
        prefix: what it begins with in every instance.
    """

    calls: int
    open: int
    alone: bool
    prefix: tuple[Piece, ...] = ()


class ForkHints(NamedTuple):
    """A place where a stream forks.

    Attributes:
        calls: that the branches make, at most; open: how many loops there are that make others.
        behind: calls of the stream itself behind it, at most; None: not known.
    """

    calls: int
    open: int
    behind: int | None


@dataclass(frozen=True, slots=True)
class GraphHints:
    """Hints of one graph or loop body.

    Attributes:
        calls: by node. streams: by the node that opens them, and ROOT_STREAM.
        forks: by node. parents: branch -> the stream that it forked from.
        captured: of a body, parameter -> calls and open loops, as in `StreamHints`, in what it
            holds: a branch, or the branches of a fork.
    """

    calls: Mapping[int, CallHints]
    streams: Mapping[int, StreamHints]
    forks: Mapping[int, ForkHints]
    parents: Mapping[int, int]
    captured: Mapping[str, tuple[int, int]]


def graph_hints(program: Program, bound: Callable[[Node], int | None]) -> dict[int, GraphHints]:
    """Hints of all graphs and loop bodies of a program, by `id` of the graph.

    Args:
        bound: tokens of one sample of a gen or select at most; None: the run decides.
    """
    clock = Clock(program, bound)
    found: dict[int, GraphHints] = {}
    for graph in program.graphs.values():
        _add(graph, clock, _NOWHERE, found)
    return found


_NOWHERE = Place()


def _add(graph: Graph, clock: Clock, place: Place, into: dict[int, GraphHints]) -> GraphHints:
    prefixes = static_prefixes(graph, place.root, place.forks)
    times = graph_times(graph, clock)
    places = Places(graph, prefixes, times)
    inner = {n.id: _add(n.body, clock, places.of(n), into) for n in graph.nodes if n.body}
    made = _Walk(graph, times, inner, place, prefixes).hints()
    into[id(graph)] = made
    return made


@dataclass(slots=True)
class _Ahead:
    """What is to come in a stream behind a point: calls that have the point in their prompts."""

    calls: int = 0
    known: bool = True
    first: Time | None = None

    def add(self, calls: int, known: bool, first: Time | None) -> None:
        self.calls += calls
        self.known = self.known and known
        if first is not None and (self.first is None or first < self.first):
            self.first = first

    def copy(self) -> _Ahead:
        return _Ahead(self.calls, self.known, self.first)


@dataclass(slots=True)
class _Tree:
    """All calls of a stream and its branches, or of the branches of a fork; see `StreamHints`."""

    calls: int = 0
    open: int = 0
    issues: list[Time] = field(default_factory=list)

    def add(self, other: _Tree) -> None:
        self.calls += other.calls
        self.open += other.open
        self.issues += other.issues

    @property
    def first(self) -> Time | None:
        return min(self.issues, default=None)


class _Walk:
    """From the last node to the first, what is still to come in each stream."""

    def __init__(
        self,
        graph: Graph,
        times: Mapping[int, tuple[Time, Time]],
        inner: Mapping[int, GraphHints],
        place: Place,
        prefixes: StaticPrefixes,
    ) -> None:
        self._graph, self._times, self._inner = graph, times, inner
        self._place, self._prefixes = place, prefixes
        self._ahead: dict[int, _Ahead] = {}
        self._trees: dict[int, _Tree] = {}  # of streams and of forks
        self._behind: dict[int, _Ahead] = {}  # of forks: what the stream itself does later
        self._calls: dict[int, CallHints] = {}
        self._joined: set[int] = set()  # branches whose texts go into another stream
        self._parents = _parents(graph)
        self._branches, self._shared = branches_of(graph), shared_branches(graph)
        self._says = {  # streams with text in any case
            n.stream for n in graph.nodes if n.op is Op.CONSTANT_TEXT and n.control is None
        }
        self._opened: Counter[str] = Counter()  # parameter that holds a fork -> branches opened
        for at, branches in self._branches.items():
            self._opened[str(graph.nodes[at].attrs.get("name"))] += len(branches)
        self._end = latest(end for _, end in times.values())

    def hints(self) -> GraphHints:
        nodes = self._graph.nodes
        for node in reversed(nodes):
            self._visit(node)
        calls = {at: self._with_forks(nodes[at], found) for at, found in self._calls.items()}
        branches = [node.id for node in nodes if node.op is Op.GET_FORK_ITEM]
        streams = {at: self._stream(at) for at in (ROOT_STREAM, *branches)}
        forks = {at: self._fork(at) for at in self._behind}
        return GraphHints(calls, streams, forks, self._parents, self._captured())

    def _fork(self, at: int) -> ForkHints:
        tree, behind = self._tree(at), self._behind[at]
        return ForkHints(tree.calls, tree.open, behind.calls if behind.known else None)

    def _stream(self, at: int) -> StreamHints:
        tree, alone = self._tree(at), self._is_alone(at)
        # Who is not alone may go on elsewhere, with calls that are not seen here.
        others = at in self._joined or (at != ROOT_STREAM and self._goes_on(at))
        prefix = self._prefixes.streams[at].pieces
        return StreamHints(tree.calls, tree.open + others, alone, prefix)

    def _captured(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for node in self._graph.nodes:
            if node.op is Op.ARGUMENT and node.id in self._trees:
                calls, opened = found.get(node.attrs["name"], (0, 0))
                tree = self._trees[node.id]
                found[node.attrs["name"]] = (calls + tree.calls, opened + tree.open)
        return {name: counts for name, counts in found.items() if counts != (0, 0)}

    def _visit(self, node: Node) -> None:
        if node.op in CALLS:
            self._call(node)
        elif node.op is Op.GET_FORK_ITEM:
            self._opens(node)
        elif node.op is Op.FORK:
            tree = self._tree(node.id)
            ahead = self._ahead_of(node.stream)
            self._behind[node.id] = ahead.copy()
            ahead.add(tree.calls, not tree.open, tree.first)
            self._tree(node.stream).add(tree)
        elif node.op is Op.JOIN and node.attrs["mode"] == "append":
            self._append(node)
        elif node.body is not None:
            self._loop(node)

    def _opens(self, branch: Node) -> None:
        tree, forks = self._tree(branch.id), forks_of(branch)
        if len(forks) > 1:  # the run decides in which of them the calls are
            tree = _Tree(0, 1, list(tree.issues))
        for fork in forks:
            self._tree(fork).add(tree)

    def _call(self, node: Node) -> None:
        issue, end = self._times[node.id]
        ahead = self._ahead_of(node.stream)
        readers = ahead.calls if ahead.known else None
        next_use = None if ahead.first is None else ahead.first.since(end)
        self._calls[node.id] = CallHints(readers, next_use)
        ahead.add(1, True, issue)
        self._tree(node.stream).add(_Tree(1, 0, [issue]))

    def _append(self, join: Node) -> None:
        """What reads the stream goes on from the first branch that says anything."""
        is_first = True  # nothing before is certain to have said something
        for at in sorted(self._branches.get(join.attrs["fork"].node, ()), key=self._index):
            index = self._graph.nodes[at].attrs["index"]
            self._joined.add(at)
            if index == 0:
                self._ahead[at] = self._ahead_of(join.stream).copy()
            elif is_first or isinstance(index, Ref):
                self._ahead[at] = _Ahead(known=False)
            is_first = is_first and not (isinstance(index, int) and at in self._says)

    def _index(self, branch: int) -> int:
        """The branch's index, the last one where the run decides it."""
        index = self._graph.nodes[branch].attrs["index"]
        return index if isinstance(index, int) else sys.maxsize

    def _loop(self, loop: Node) -> None:
        """Its passes may be any number, also in branches that they were given."""
        assert loop.body is not None, "a loop without a body"
        hints, begin = self._inner[loop.id], self._times[loop.id][0]
        root = hints.streams[ROOT_STREAM]
        if root.calls or root.open:
            self._open(loop.stream, begin)
        for name in hints.captured:
            operand = loop.attrs["captures"].get(name)
            if isinstance(operand, Ref):
                self._open_captured(operand.node, begin)

    def _open_captured(self, at: int, begin: Time) -> None:
        if self._graph.nodes[at].op is Op.GET_FORK_ITEM:
            self._open(at, begin)
        else:
            self._tree(at).add(_Tree(0, 1, [begin]))
            for branch in self._branches.get(at, ()):
                self._ahead_of(branch).add(0, False, begin)

    def _open(self, stream: int, begin: Time) -> None:
        self._ahead_of(stream).add(0, False, begin)
        self._tree(stream).add(_Tree(0, 1, [begin]))

    # -- what is there at the begin

    def _ahead_of(self, stream: int) -> _Ahead:
        found = self._ahead.get(stream)
        if found is None:
            found = self._ahead[stream] = _Ahead(known=not self._goes_on(stream))
            if stream == ROOT_STREAM and self._place.is_body:
                found.first = self._next_pass()
        return found

    def _next_pass(self) -> Time | None:
        """When the first call of a next pass of the loop is issued, in this very stream."""
        nodes = self._graph.nodes
        first = next((n for n in nodes if n.op in CALLS and n.stream == ROOT_STREAM), None)
        if first is None:
            return None
        return later(self._end, self._times[first.id][0])

    def _is_alone(self, stream: int) -> bool:
        return stream not in self._joined and not self._goes_on(stream)

    def _goes_on(self, stream: int) -> bool:
        """Whether a stream goes on where the graph ends, as that around a loop does."""
        if stream == ROOT_STREAM:
            return self._place.is_body
        node = self._graph.nodes[stream]
        if node.op is not Op.GET_FORK_ITEM:
            return True
        fork = self._graph.nodes[node.attrs["fork"].node]
        if fork.op is not Op.ARGUMENT:
            return stream in self._shared
        name, index = fork.attrs["name"], node.attrs["index"]
        own = isinstance(index, Ref) and self._graph.nodes[index.node].attrs.get("name")
        alone = self._opened[name] == 1 and own in self._place.passes
        return not (alone and name in self._place.single)

    def _tree(self, at: int) -> _Tree:
        found = self._trees.get(at)
        if found is None:
            found = self._trees[at] = _Tree()
        return found

    # -- forks around a call

    def _with_forks(self, node: Node, found: CallHints) -> CallHints:
        end = self._times[node.id][1]
        forks: list[int | None] = []
        stream = node.stream
        while stream in self._parents:
            fork = self._graph.nodes[stream].attrs["fork"].node
            forks.append(self._next_at(fork, end))
            stream = self._parents[stream]
        if stream != ROOT_STREAM:
            forks += self._next_outside(stream, end)
        return found._replace(forks=tuple(forks))

    def _next_outside(self, stream: int, end: Time) -> list[int | None]:
        """The same at a fork of the graph around: other passes are about as far as this one."""
        opened = self._graph.nodes[stream]
        fork = opened.attrs["fork"].node if opened.op is Op.GET_FORK_ITEM else stream
        after = self._place.after.get(self._graph.nodes[fork].attrs.get("name", ""))
        rest = self._end.since(end)
        return [None if after is None or rest is None else rest + after]

    def _next_at(self, fork: int, end: Time) -> int | None:
        """Tokens from `end` until the next call that reads the prompt up to a fork."""
        tree = self._trees[fork]
        tree.issues.sort()
        at = bisect_left(tree.issues, end)
        coming = tree.issues[at : at + 1]
        behind = self._behind.get(fork)
        if behind is not None and behind.first is not None and behind.first >= end:
            coming.append(behind.first)
        return min(coming).since(end) if coming else None


def _parents(graph: Graph) -> dict[int, int]:
    """Branch -> the stream that it forked from; none for forks of the graph around."""
    nodes = graph.nodes
    return {
        node.id: nodes[fork].stream
        for node in nodes
        if node.op is Op.GET_FORK_ITEM
        and "more" not in node.attrs
        and nodes[fork := node.attrs["fork"].node].op is Op.FORK
    }
