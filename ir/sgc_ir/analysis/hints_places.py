"""Where the bodies of loops stand: what the streams and forks that they use are outside of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sgc_ir.analysis.hints_time import Time
from sgc_ir.analysis.static_prefix import Beginning, StaticPrefixes, appends_to_root
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref, forks_of
from sgc_ir.ops import Op

CALLS = (Op.GEN, Op.SELECT)


class Place(NamedTuple):
    """Where a loop's body stands.

    Attributes:
        root: what the stream around it begins with.
        forks: what the forks begin with that it was given, by parameter.
        single: those of them whose branches make calls nowhere else.
        passes: parameters that have another value in each pass, and tell branches of a fork.
        after: parameter -> tokens from the end of the loop until the next call that reads the
            prompt up to the fork; None: not known.
    """

    root: Beginning = Beginning()
    forks: Mapping[str, Beginning] = {}
    single: frozenset[str] = frozenset()
    passes: frozenset[str] = frozenset()
    after: Mapping[str, int | None] = {}
    is_body: bool = False


class Places:
    """Where the loops of a graph stand."""

    def __init__(
        self, graph: Graph, prefixes: StaticPrefixes, times: Mapping[int, tuple[Time, Time]]
    ) -> None:
        self._graph, self._prefixes, self._times = graph, prefixes, times
        self._callers: dict[int, list[int]] = {}  # fork -> calls and loops with calls below it
        self._users: dict[int, list[int]] = {}  # fork -> nodes that use it, or a branch
        self._joined = {n.attrs["fork"].node for n in graph.nodes if _appends_branches(n)}
        for node in graph.nodes:
            if node.op in CALLS:
                self._note(self._callers, node.stream, node.id)
            elif node.op is Op.GET_FORK_ITEM:
                for fork in forks_of(node):
                    self._note(self._users, fork, node.id)
            elif node.body is not None:
                calls = calling(node.body)
                if ROOT_STREAM in calls:
                    self._note(self._callers, node.stream, node.id)
                for name, operand in node.attrs["captures"].items():
                    if isinstance(operand, Ref):
                        self._note(self._users, operand.node, node.id)
                        if name in calls:
                            self._note(self._callers, operand.node, node.id)

    def _note(self, found: dict[int, list[int]], at: int, user: int) -> None:
        """A node uses the stream or fork `at`, and with it all forks that it came from."""
        while at != ROOT_STREAM:
            node = self._graph.nodes[at]
            if node.op is Op.FORK:
                found.setdefault(at, []).append(user)
                at = node.stream
            elif node.op is Op.GET_FORK_ITEM:
                at, *others = forks_of(node)
                for other in others:
                    self._note(found, other, user)
            else:
                return

    def of(self, loop: Node) -> Place:
        """Where a loop's body stands."""
        forks: dict[str, Beginning] = {}
        single: set[str] = set()
        after: dict[str, int | None] = {}
        for name, operand in loop.attrs["captures"].items():
            if isinstance(operand, Ref) and self._graph.nodes[operand.node].op is Op.FORK:
                at = operand.node
                forks[name] = self._prefixes.forks[at]
                if self._users[at][0] != loop.id:
                    forks[name] = forks[name]._replace(ended=True)
                if self._callers.get(at) == [loop.id] and at not in self._joined:
                    single.add(name)
                after[name] = self._after(loop, self._graph.nodes[at].stream)
        root = self._prefixes.loops[loop.id]
        if appends_to_root(loop):
            root = root._replace(ended=True)
        return Place(root, forks, frozenset(single), _passes(self._graph, loop), after, True)

    def _after(self, loop: Node, stream: int) -> int | None:
        later = [n for n in self._graph.nodes[loop.id :] if n.op in CALLS and n.stream == stream]
        first = min((self._times[node.id][0] for node in later), default=None)
        return None if first is None else first.since(self._times[loop.id][1])


def _passes(graph: Graph, loop: Node) -> frozenset[str]:
    found = {loop.attrs["index_param"]} - {None}
    for name, operand in zip(loop.attrs["item_params"], loop.attrs["over"], strict=True):
        if isinstance(operand, Ref) and graph.nodes[operand.node].op is Op.FORK:
            found.add(name)
    return frozenset(found)


def _appends_branches(node: Node) -> bool:
    return node.op is Op.JOIN and node.attrs["mode"] == "append"


def calling(body: Graph) -> frozenset[str | int]:
    """Parameters of a loop's body that hold a branch, or a fork, in which the body makes calls;
    ROOT_STREAM where it makes some in the stream around it."""
    found: set[str | int] = set()
    for node in body.nodes:
        if node.op in CALLS:
            found.add(_origin(body, node.stream))
        elif node.body is not None:
            for key in calling(node.body):
                operand = node.stream if isinstance(key, int) else node.attrs["captures"].get(key)
                at = operand.node if isinstance(operand, Ref) else operand
                if isinstance(at, int):
                    found.add(_origin(body, at))
    return frozenset(found)


def _origin(body: Graph, at: int) -> str | int:
    """The parameter that the stream or fork `at` came with, or ROOT_STREAM."""
    while at != ROOT_STREAM:
        node = body.nodes[at]
        if node.op is Op.GET_FORK_ITEM:
            at = node.attrs["fork"].node
        elif node.op is Op.FORK:
            at = node.stream
        else:
            return str(node.attrs.get("name", ""))
    return ROOT_STREAM
