"""Verifier rules for streams: they exist, roles close, joined branches rest, paths are unique."""

from __future__ import annotations

from dataclasses import dataclass

from sgc_ir.graph import ROOT_STREAM, Node, Ref
from sgc_ir.ops import OPS, Op
from sgc_ir.paths import is_static, node_path, stream_paths
from sgc_ir.verify_scope import Faults, Scope, constant_width


def streams(scope: Scope) -> Faults:
    nodes = scope.graph.nodes
    for node in nodes:
        if node.stream == ROOT_STREAM:
            continue
        if not 0 <= node.stream < node.id or nodes[node.stream].op is not Op.GET_FORK_ITEM:
            yield node, f"is in stream %{node.stream}, which no earlier GetForkItem opened"


def fork_items(scope: Scope) -> Faults:
    seen: set[tuple[int, int]] = set()
    for node in scope.graph.nodes:
        if node.op not in (Op.GET_FORK_ITEM, Op.JOIN):
            continue
        fork = scope.node(node.attrs["fork"])
        if fork.op is Op.ARGUMENT:
            if fork.attrs["name"] not in scope.fork_paths:
                yield node, f"argument {fork.attrs['name']} is no captured fork"
        elif fork.op is not Op.FORK:
            yield node, f"%{fork.id} is a {fork.op}, not a Fork"
        width, index = constant_width(fork), node.attrs.get("index")
        if node.op is Op.GET_FORK_ITEM and width is not None and isinstance(index, int):
            if not 0 <= index < width:
                yield node, f"takes branch {index} of a fork of width {width}"
            if (fork.id, index) in seen:
                yield node, f"opens branch {index} of %{fork.id} a second time"
            seen.add((fork.id, index))


def joins(scope: Scope) -> Faults:
    joined: dict[int, int] = {}  # fork -> its join
    for node in scope.graph.nodes:
        if node.op is Op.JOIN:
            yield from _join_faults(scope, node)
            joined[node.attrs["fork"].node] = node.id
        elif node.appends and node.stream != ROOT_STREAM:
            fork = scope.graph.nodes[node.stream].attrs["fork"].node
            if fork in joined:
                yield node, f"appends to a branch that %{joined[fork]} has joined"


def _join_faults(scope: Scope, node: Node) -> Faults:
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


def body_streams(scope: Scope) -> Faults:
    if scope.loop is None:
        return
    for node in scope.graph.nodes:
        if node.stream != ROOT_STREAM:
            continue
        if node.appends and node.op is not Op.FORK:
            yield node, "appends to the stream around its loop; a body may only use branches"
        if node.op is Op.EXPR and node.attrs["fn"] == "set":
            yield node, "sets a variable of the stream around its loop"


@dataclass(slots=True)
class _Role:
    """Role state of a stream: what is open, and whether it was open before the stream began."""

    name: str | None
    inherited: bool


class RoleWalk:
    """Open roles along a graph, in node order.

    Attributes:
        at: node id -> role open in the node's stream before the node.
        faults: what is nested wrongly or left open.
    """

    def __init__(self, scope: Scope) -> None:
        self.at: dict[int, str | None] = {}
        self.faults: list[tuple[Node | None, str]] = []
        self._scope = scope
        self._states = {ROOT_STREAM: _Role(scope.root_role, scope.root_role is not None)}
        for node in scope.graph.nodes:
            self._step(node)
        self._check_end()

    def _step(self, node: Node) -> None:
        state = self._states[node.stream]
        self.at[node.id] = state.name
        if node.op is Op.GET_FORK_ITEM:
            role = self.fork_role(node.attrs["fork"])
            self._states[node.id] = _Role(role, role is not None)
        elif node.op is Op.ROLE_BEGIN:
            if state.name is not None:
                self.faults.append((node, f"opens a role inside {state.name}; roles do not nest"))
            self._states[node.stream] = _Role(node.attrs["role"], False)
        elif node.op is Op.ROLE_END:
            role = node.attrs["role"]
            if state.name != role:
                self.faults.append((node, f"ends {role}, but {state.name or 'no role'} is open"))
            self._states[node.stream] = _Role(None, False)

    def fork_role(self, fork: Ref) -> str | None:
        """Role that the branches of a fork inherit."""
        node = self._scope.node(fork)
        if node.op is Op.ARGUMENT:
            return self._scope.fork_roles.get(node.attrs["name"])
        return self.at.get(node.id)

    def _check_end(self) -> None:
        for stream, state in self._states.items():
            if state.name is not None and not state.inherited:
                place = "the root stream" if stream == ROOT_STREAM else f"stream %{stream}"
                last = self._scope.graph.nodes[stream] if stream >= 0 else None
                self.faults.append((last, f"role {state.name} is not closed in {place}"))


def roles(scope: Scope) -> Faults:
    yield from RoleWalk(scope).faults


def unique_paths(scope: Scope) -> Faults:
    paths = stream_paths(scope.graph, scope.root_path, dict(scope.fork_paths))
    seen: dict[str, int] = {}
    for node in scope.graph.nodes:
        if not OPS[node.op].path_kind:
            continue
        path = node_path(node, paths)
        if not is_static(path):
            continue
        if path in seen:
            yield node, f"has path {path!r}, which %{seen[path]} has too"
        if scope.loop is not None:
            yield node, f"has path {path!r} in every pass of its loop"
        seen[path] = node.id
