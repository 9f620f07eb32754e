"""Which nodes of a graph with branches wait for which, before a run may start them.

A node is started when its token has arrived and the nodes before it that it must not overtake have
*passed*: have been started, or are dead. Those stand in *lanes*: the nodes of one stream, and the
users of one fork whose branches are reached through a gate. Data is no reason to wait: a value of
a node that has not been started yet is a placeholder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sgc_ir.expr import FUNCTIONS
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Ref, Token, forks_of, iter_refs
from sgc_ir.ops import Op

Lane = tuple[str, int]  # ("stream", its id) or ("family", id of its fork)
Touched = frozenset[int | str]  # ROOT_STREAM, and parameters of a body that hold streams

_STREAM, _FAMILY = "stream", "family"
_SOLID = (Op.FORK, Op.GET_FORK_ITEM, Op.JOIN, Op.SUB_PROGRAM, Op.LOOP)
_OWN_TEXT = ("stream_text", "stream_messages")


def is_controlled(graph: Graph) -> bool:
    """Whether the nodes of `graph` cannot simply be started in order, all at once."""
    return any(
        node.control is not None
        or node.op in (Op.BRANCH, Op.MERGE)
        or (node.body is not None and bool(touched(node.body)))
        for node in graph.nodes
    )


def touched(body: Graph) -> Touched:
    """The streams around a loop that its body uses: appends to, writes in, or captures."""
    found: set[int | str] = set()
    held = _held(body)
    for node in body.nodes:
        forks = node.op is Op.FORK and node.stream in held  # of the loop's own stream: `BodyRoot`
        used = [node.stream] if forks or _writes(node) else []
        if node.body is not None:
            used += [key for key, _ in outer_streams(body, node)]
        elif isinstance(of := node.attrs.get("of"), Ref) and of.node in held:
            used.append(of.node)
        for key in used:
            if key == ROOT_STREAM:
                found.add(key)
            elif body.nodes[key].op is Op.ARGUMENT:
                found.add(body.nodes[key].attrs["name"])
    return frozenset(found)


def outer_streams(graph: Graph, loop: Node) -> Iterator[tuple[int, int | str]]:
    """Streams of `graph` that the body of `loop` uses, with the body's name for each."""
    assert loop.body is not None, "a loop without a body"
    for key in touched(loop.body):
        yield (loop.stream if isinstance(key, int) else loop.attrs["captures"][key].node), key


def holds_gates(body: Graph) -> bool:
    """Whether a pass of a loop may be long in using branches that other passes may use too: the
    loop then stays at the gates of the forks that it walks or captures until its passes are
    through."""
    return is_controlled(body) and bool(_captured_forks(body) - _own_forks(body))


def own_branches(body: Graph) -> frozenset[int]:
    """GetForkItems that give the branch of the pass's item, where no other is used of its fork."""
    if not is_controlled(body):
        return frozenset()
    own = _own_forks(body)
    return frozenset(
        node.id
        for node in body.nodes
        if node.op is Op.GET_FORK_ITEM and _name(body, node.attrs["fork"]) in own
    )


def _name(body: Graph, ref: Ref) -> str | None:
    node = body.nodes[ref.node]
    return str(node.attrs["name"]) if node.op is Op.ARGUMENT else None


def _own_forks(body: Graph) -> set[str | None]:
    """Parameters that hold forks of which each pass uses the branch of its item only."""
    forks = _captured_forks(body)
    opened: set[str | None] = set()
    others: set[str | None] = set()
    for node in body.nodes:
        if node.op is Op.GET_FORK_ITEM and _is_item(body, node):
            name = _name(body, node.attrs["fork"])
            (others if name in opened else opened).add(name)
        elif node.op in (Op.JOIN, Op.GET_FORK_ITEM):  # a First is among forks of its own graph
            others.add(_name(body, node.attrs["fork"]))
        elif node.op is Op.LOOP:
            operands = (node.attrs["over"], node.attrs["captures"])
            others |= {_name(body, ref) for ref in iter_refs(operands)}
    return forks - others


def _captured_forks(body: Graph) -> set[str | None]:
    names = {_name(body, node.attrs["fork"]) for node in body.nodes if "fork" in node.attrs}
    for node in body.nodes:
        if node.body is not None:
            inner = _captured_forks(node.body)
            captures = node.attrs["captures"]
            names |= {_name(body, captures[name]) for name in inner if name in captures}
    return names - {None}


def _is_item(body: Graph, branch: Node) -> bool:
    """Whether a branch is that of an item of the pass; no other pass then opens it."""
    index = branch.attrs["index"]
    return isinstance(index, Ref) and body.nodes[index.node].op is Op.ARGUMENT


def _writes(node: Node) -> bool:
    """Whether the node changes its stream, its variables included; a fork does not."""
    if node.op is Op.EXPR and node.attrs["fn"] == "set":
        return True
    return node.appends and node.op is not Op.FORK


def _held(graph: Graph) -> set[int]:
    """Arguments in whose streams nodes of the graph stand."""
    streams = {node.stream for node in graph.nodes} - {ROOT_STREAM}
    return {at for at in streams if graph.nodes[at].op is Op.ARGUMENT}


class ControlPlan:
    """What a run of a graph with branches needs to know of it.

    Attributes:
        waits: for each node the number of things it waits for: its token, and nodes before it.
        after: for each node those that wait until it has passed.
        solid: for each node the nodes whose streams, forks or handles it uses.
        under: token -> the nodes that run under it. merges: token -> the Merges that list it.
        first, last: lane -> its first and last node.
        tails: Join -> the last nodes before it in the branches that it joins.
        slow_forks: Forks whose ordinal the run decides.
        own: GetForkItems of a body at whose branches a pass takes a turn of its own.
        turns: Loops that have passed only when all their passes have begun.
        shared: in a loop's body, lanes of what its passes share.
        guards: nodes after which a tool with effects may have to wait, -> their position.
    """

    def __init__(
        self,
        graph: Graph,
        gated: frozenset[int],
        at_root: frozenset[int],
        one_gate: Mapping[int, int],
    ) -> None:
        nodes = graph.nodes
        self.own = own_branches(graph)
        self._graph = graph
        self._gated, self._one_gate = gated, one_gate
        self._at_root = at_root
        self._held = _held(graph)
        self._arguments: dict[str, int] = {}  # parameter -> the first node that gives it
        self._branches: dict[int, list[int]] = {}  # fork -> its GetForkItems
        self._forks = {n.attrs["fork"].node for n in nodes if "fork" in n.attrs}
        self.waits = [int(node.control is not None or node.op is Op.MERGE) for node in nodes]
        self.after: list[list[int]] = [[] for _ in nodes]
        self.solid: list[tuple[int, ...]] = [self._solid(node) for node in nodes]
        self.under: dict[Token, list[int]] = {}
        self.merges: dict[Token, list[int]] = {}
        self.first: dict[Lane, int] = {}
        self.last: dict[Lane, int] = {}
        self.tails: dict[int, tuple[int, ...]] = {}
        self.turns = frozenset(n.id for n in nodes if n.body is not None and self._takes_turn(n))
        self.slow_forks = frozenset(
            n.id for n in nodes if n.op is Op.FORK and isinstance(n.attrs["ordinal"], Ref)
        )
        guards = [node.id for node in nodes if _may_guard(node)]
        self.guards = {node_id: position for position, node_id in enumerate(guards)}
        for node in nodes:
            self._add(node)
        self.shared = tuple(self._shared())

    def _add(self, node: Node) -> None:
        if node.control is not None:
            self.under.setdefault(node.control, []).append(node.id)
        if node.op is Op.MERGE:
            for ref, arm in node.attrs["tokens"]:
                self.merges.setdefault((ref.node, arm), []).append(node.id)
        if node.op is Op.ARGUMENT:
            self._arguments.setdefault(node.attrs["name"], node.id)
        elif node.op is Op.GET_FORK_ITEM:
            for fork in forks_of(node):
                self._branches.setdefault(fork, []).append(node.id)
        if node.op is Op.JOIN:
            self.tails[node.id] = tuple(self._tails(node))
        before = {*self.solid[node.id], *(ref.node for ref in iter_refs(node.attrs.get("after")))}
        if "on" in node.attrs:  # what streams got before it is skipped where they have failed
            before.update(self.last.values())
        for lane in self._lanes(node):
            if lane in self.last:
                before.add(self.last[lane])
            self.first.setdefault(lane, node.id)
            self.last[lane] = node.id
        for other in before:
            self.after[other].append(node.id)
        self.waits[node.id] += len(before)

    def _solid(self, node: Node) -> tuple[int, ...]:
        if node.op is Op.MERGE:
            return ()
        found = {ref.node for name, v in node.attrs.items() if name != "after" for ref in _refs(v)}
        if node.stream != ROOT_STREAM:
            found.add(node.stream)
        return tuple(at for at in found if self._is_solid(at) or at == node.stream)

    def _is_solid(self, at: int) -> bool:
        node = self._graph.nodes[at]
        return node.op in _SOLID or (node.op is Op.ARGUMENT and not node.appends)

    def _tails(self, join: Node) -> Iterator[int]:
        for branch in self._branches.get(join.attrs["fork"].node, ()):
            yield self.last.get((_STREAM, branch), branch)

    def _shared(self) -> Iterator[Lane]:
        names = touched(self._graph)
        for stream, at in self.last:
            if stream == _STREAM and self._name(at) in names:
                yield stream, at
            elif stream == _FAMILY and self._graph.nodes[at].op is Op.ARGUMENT:
                if any(self._crosses(self._graph.nodes[b]) for b in self._branches.get(at, ())):
                    yield stream, at

    def _name(self, stream: int) -> int | str | None:
        """What `touched` says of a stream of this graph."""
        if stream == ROOT_STREAM:
            return stream
        node = self._graph.nodes[stream]
        return str(node.attrs["name"]) if node.op is Op.ARGUMENT else None

    def _crosses(self, branch: Node) -> bool:
        return not _is_item(self._graph, branch)

    # -- lanes

    def _lanes(self, node: Node) -> set[Lane]:
        if node.body is not None:
            return self._loop_lanes(node)
        found: set[Lane] = set()
        of, field = node.attrs.get("of"), node.attrs.get("field")
        if _writes(node) or node.op is Op.FORK or (of is None and field in _OWN_TEXT):
            found.update(self._stream_lanes(node.stream))
        if isinstance(of, Ref) and self._is_stream(of.node):
            found.update(self._stream_lanes(of.node))
        if "fork" in node.attrs and node.id not in self.own:
            found.update(self._family_lane(node.attrs["fork"].node))
        if node.stream != ROOT_STREAM:
            found.update(lane for lane in self._stream_lanes(node.stream) if lane[0] == _FAMILY)
        return found

    def _loop_lanes(self, loop: Node) -> set[Lane]:
        found: set[Lane] = set()
        if loop.id in self._at_root:
            found.update(self._stream_lanes(loop.stream))
        for stream, _ in outer_streams(self._graph, loop):
            found.update(self._stream_lanes(stream))
        for ref in iter_refs((loop.attrs["over"], loop.attrs["captures"])):
            found.update(self._family_lane(ref.node))
        return found

    def _stream_lanes(self, stream: int) -> Iterator[Lane]:
        yield _STREAM, self._one(stream)
        at_gate = stream != ROOT_STREAM and stream not in self.own
        if at_gate and self._graph.nodes[stream].op is Op.GET_FORK_ITEM:
            yield from self._family_lane(self._graph.nodes[stream].attrs["fork"].node)

    def _family_lane(self, at: int) -> Iterator[Lane]:
        """The lane of a fork with a gate; none for other nodes."""
        node = self._graph.nodes[at]
        if at in self._gated or (node.op is Op.ARGUMENT and at in self._forks):
            yield _FAMILY, self._one(self._one_gate.get(at, at))

    def _one(self, at: int) -> int:
        """The same node for all Arguments that give one parameter."""
        if at == ROOT_STREAM or self._graph.nodes[at].op is not Op.ARGUMENT:
            return at
        return self._arguments[self._graph.nodes[at].attrs["name"]]

    def _is_stream(self, at: int) -> bool:
        return self._graph.nodes[at].op is Op.GET_FORK_ITEM or at in self._held

    def _takes_turn(self, loop: Node) -> bool:
        assert loop.body is not None, "a loop without a body"
        if touched(loop.body):
            return True
        walked = iter_refs((loop.attrs["over"], loop.attrs["captures"]))
        families = any(True for ref in walked for _ in self._family_lane(ref.node))
        return families and holds_gates(loop.body)


def _refs(value: object) -> Sequence[Ref]:
    return list(iter_refs(value))


def _may_guard(node: Node) -> bool:
    if node.op is Op.EXPR:
        return node.attrs["fn"] != "set" and not FUNCTIONS[node.attrs["fn"]].total
    return node.op in (Op.VARIABLE, Op.CALL, Op.BRANCH, Op.LOOP, Op.SUB_PROGRAM, Op.FIRST)
