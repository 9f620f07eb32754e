"""Verifier rules for streams: they exist, roles close, joined branches rest, paths are unique."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sgc_ir.graph import ROOT_STREAM, Node, Ref
from sgc_ir.ops import OPS, Op
from sgc_ir.paths import is_static, node_path, stream_paths
from sgc_ir.verify_scope import Faults, Scope, constant_width


def streams(scope: Scope) -> Faults:
    nodes = scope.graph.nodes
    for node in nodes:
        if node.stream == ROOT_STREAM:
            continue
        if not 0 <= node.stream < node.id or not scope.is_stream(Ref(node.stream)):
            yield node, f"is in stream %{node.stream}, which no earlier GetForkItem opened"


def fork_items(scope: Scope) -> Faults:
    seen: set[tuple[int, int]] = set()
    for node in scope.graph.nodes:
        if node.op not in (Op.GET_FORK_ITEM, Op.JOIN, Op.FIRST) or "fork" not in node.attrs:
            continue
        fork = scope.node(node.attrs["fork"])
        if fork.op is Op.ARGUMENT:
            name = fork.attrs["name"]
            if name not in scope.fork_paths or name in scope.stream_roles:
                yield node, f"argument {name} is no captured fork"
        elif fork.op is not Op.FORK:
            yield node, f"%{fork.id} is a {fork.op}, not a Fork"
        width, index = constant_width(fork), node.attrs.get("index")
        if node.op is Op.GET_FORK_ITEM and width is not None and isinstance(index, int):
            if not 0 <= index < width:
                yield node, f"takes branch {index} of a fork of width {width}"
            if (fork.id, index) in seen:
                yield node, f"opens branch {index} of %{fork.id} a second time"
            seen.add((fork.id, index))


def several_forks(scope: Scope) -> Faults:
    """A GetForkItem among the branches of several forks names forks of constant width."""
    walk: RoleWalk | None = None
    for node in scope.graph.nodes:
        if "more" not in node.attrs:
            continue
        refs = (node.attrs["fork"], *node.attrs["more"])
        forks = [scope.node(ref) for ref in refs]
        if len(set(refs)) != len(refs) or len(refs) < 2:
            yield node, "needs further forks in `more`, each of them once"
        if any(f.op is not Op.FORK or constant_width(f) is None for f in forks):
            yield node, "chooses among several forks, of which one has no constant width"
            continue
        if not isinstance(node.attrs["index"], Ref):
            yield node, "chooses among several forks by an index that is known; name the fork"
        walk = walk or RoleWalk(scope)
        if len({walk.fork_role(ref) for ref in refs}) > 1:
            yield node, "chooses among branches with different open roles"


def races(scope: Scope) -> Faults:
    """A First has branches, or sub-programs, and knows what they give."""
    for node in scope.graph.nodes:
        if node.op is not Op.FIRST:
            continue
        among, results = node.attrs.get("among"), node.attrs.get("results")
        if ("fork" in node.attrs) == ("among" in node.attrs):
            yield node, "chooses among the branches of a fork, or among those listed: one of both"
        elif "fork" in node.attrs:
            yield from _fork_race_faults(scope, node)
        elif isinstance(among, Ref):
            if results is not None:
                yield node, "has results, which a list of run-time length has not"
        else:
            yield from _listed_race_faults(scope, node, among or (), results)
        if type(node.attrs["count"]) is int and node.attrs["count"] < 1:
            yield node, f"chooses {node.attrs['count']} branches; it must be 1 at least"


def _fork_race_faults(scope: Scope, node: Node) -> Faults:
    fork = scope.fork_of(node)
    if fork is None or fork.stream != node.stream:
        yield node, "chooses among the branches of a fork of another stream"
    elif constant_width(fork) is not None:
        yield node, "chooses among a fork of constant width, whose branches are listed"
    if "results" in node.attrs:
        yield node, "has results, which a fork of run-time width has not"


def _listed_race_faults(scope: Scope, node: Node, among: Any, results: Any) -> Faults:
    if results is not None and len(results) != len(among):
        yield node, f"needs what each of {len(among)} branches gives"
    for ref in among:
        if scope.is_stream(ref) != (results is not None):
            yield node, f"gives no results of branch %{ref.node}, or some of a sub-program"
            return


def joins(scope: Scope) -> Faults:
    joined: dict[int, list[Node]] = {}  # fork -> its joins, of which one runs
    for node in scope.graph.nodes:
        if node.op is Op.JOIN:
            yield from join_faults(scope, node)
            joined.setdefault(node.attrs["fork"].node, []).append(node)
        elif node.appends and node.stream != ROOT_STREAM:
            opener = scope.graph.nodes[node.stream]
            fork = opener.attrs["fork"].node if opener.op is Op.GET_FORK_ITEM else -1
            for join in joined.get(fork, ()):
                if not scope.exclusive(join, node):
                    yield node, f"appends to a branch that %{join.id} has joined"


def join_faults(scope: Scope, node: Node) -> Faults:
    """What is wrong with a Join by itself and beside its Fork."""
    fork = scope.fork_of(node)
    variables = node.attrs.get("vars")
    if fork is not None and fork.stream != node.stream:
        yield node, "joins a fork of another stream"
    if fork is not None and fork.attrs.get("copy"):
        yield node, "joins a copy, which is never merged back"
    if variables is None:
        return
    width = constant_width(fork)
    if node.attrs["mode"] != "gather" or width is None:
        yield node, "has vars, which only the gather of a fork of constant width has"
        return
    for name, writers in variables.items():
        if not isinstance(writers, list | tuple) or len(writers) != width:
            yield node, f"variable {name!r} needs one writer for each of {width} branches"


@dataclass(slots=True)
class _Role:
    """Role state of a stream: what is open, and whether it was open before the stream began."""

    name: str | None
    inherited: bool


class RoleWalk:
    """Open roles along a graph, in node order, arms of branches apart.

    Attributes:
        at: node id -> role open in the node's stream before the node.
        faults: what is nested wrongly or left open.
    """

    def __init__(self, scope: Scope) -> None:
        self.at: dict[int, str | None] = {}
        self.faults: list[tuple[Node | None, str]] = []
        self._scope = scope
        # stream -> what its turns did, in order: the node that did it, and the state after it
        self._states: dict[int, list[tuple[Node | None, _Role]]] = {}
        self._open(ROOT_STREAM, scope.root_role, None)
        for node in scope.graph.nodes:
            self._step(node)
        self._check_end()

    def _open(self, stream: int, role: str | None, opener: Node | None) -> None:
        self._states[stream] = [(opener, _Role(role, role is not None))]

    def _step(self, node: Node) -> None:
        if node.op is Op.GET_FORK_ITEM:
            self.at[node.id] = self._role(node.stream, node).name
            self._open(node.id, self.fork_role(node.attrs["fork"]), node)
            return
        if node.op is Op.ARGUMENT and node.attrs["name"] in self._scope.stream_roles:
            self._open(node.id, self._scope.stream_roles[node.attrs["name"]], node)
        state = self._role(node.stream, node)
        self.at[node.id] = state.name
        if node.op is Op.ROLE_BEGIN:
            if state.name is not None:
                self.faults.append((node, f"opens a role inside {state.name}; roles do not nest"))
            self._states[node.stream].append((node, _Role(node.attrs["role"], False)))
        elif node.op is Op.ROLE_END:
            role = node.attrs["role"]
            if state.name != role:
                self.faults.append((node, f"ends {role}, but {state.name or 'no role'} is open"))
            self._states[node.stream].append((node, _Role(None, False)))

    def _role(self, stream: int, node: Node | None) -> _Role:
        """State of a stream where `node` stands: after the last turn that can come before it."""
        states = self._states[stream]
        for by, state in reversed(states):
            if by is None or node is None or not self._scope.exclusive(by, node):
                return state
        return states[0][1]

    def role_at(self, loop: Node, stream: int) -> str | None:
        """Role that is open in another stream where a Loop stands."""
        for by, state in reversed(self._states[stream]):
            earlier = by is None or by.id < loop.id
            if earlier and (by is None or not self._scope.exclusive(by, loop)):
                return state.name
        return None

    def fork_role(self, fork: Ref) -> str | None:
        """Role that the branches of a fork inherit."""
        node = self._scope.node(fork)
        if node.op is Op.ARGUMENT:
            return self._scope.fork_roles.get(node.attrs["name"])
        return self.at.get(node.id)

    def _check_end(self) -> None:
        for stream, states in self._states.items():
            first, last = states[0][1], states[-1][1]
            node = self._scope.graph.nodes[stream] if stream >= 0 else None
            place = "the root stream" if stream == ROOT_STREAM else f"stream %{stream}"
            if last.name is not None and not last.inherited:
                self.faults.append((node, f"role {last.name} is not closed in {place}"))
            elif self._is_outer(node) and last.name != first.name:
                self.faults.append((node, f"a pass closes role {first.name} in {place}"))

    def _is_outer(self, opener: Node | None) -> bool:
        """Whether a stream is one from around the loop of this body."""
        is_given = opener is None or opener.op is Op.ARGUMENT
        return self._scope.loop is not None and is_given


def roles(scope: Scope) -> Faults:
    yield from RoleWalk(scope).faults


def unique_paths(scope: Scope) -> Faults:
    paths = stream_paths(scope.graph, scope.root_path, dict(scope.fork_paths))
    seen: dict[str, list[Node]] = {}
    for node in scope.graph.nodes:
        if not OPS[node.op].path_kind:
            continue
        path = node_path(node, paths)
        if not is_static(path):
            continue
        for other in seen.get(path, ()):
            if not scope.exclusive(node, other):
                yield node, f"has path {path!r}, which %{other.id} has too"
        if scope.loop is not None:
            yield node, f"has path {path!r} in every pass of its loop"
        seen.setdefault(path, []).append(node)
