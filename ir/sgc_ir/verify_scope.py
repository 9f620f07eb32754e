"""What a rule of the verifier sees: one graph or body in its surroundings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.graph import Graph, Node, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.tokens import Tokens

_TOKENS = "tokens"  # in `memo`
Fault = tuple[Node | None, str]  # the node at fault, and why
Faults = Iterator[Fault]


@dataclass(frozen=True, slots=True)
class Scope:
    """A graph under verification.

    Attributes:
        where: the graph's name, with the loop nodes that lead to a body.
        outer, loop: the enclosing scope and the Loop that owns this body, or None.
        root_role: role that is open in the graph's own stream when it starts.
        fork_roles: parameter that holds a captured fork -> role open at that fork.
        stream_roles: parameter that holds a captured branch -> role open in it at the loop.
        root_path, fork_paths: the same for paths (of forks and branches); `*` of outer loops stands
            there as `!`.
        syntax: whether patterns, schemas and grammars are compiled.
        memo: what rules have worked out about the scope.
    """

    program: Program
    graph: Graph
    where: str
    outer: Scope | None = None
    loop: Node | None = None
    root_role: str | None = None
    fork_roles: Mapping[str, str | None] = field(default_factory=dict)
    stream_roles: Mapping[str, str | None] = field(default_factory=dict)
    root_path: str = ""
    fork_paths: Mapping[str, str] = field(default_factory=dict)
    syntax: bool = True
    memo: dict[str, Any] = field(default_factory=dict, compare=False)

    def node(self, ref: Ref) -> Node:
        return self.graph.nodes[ref.node]

    def is_stream(self, ref: Ref) -> bool:
        """Whether a node is a branch: opened here, or captured by the loop of this body."""
        node = self.node(ref)
        if node.op is Op.ARGUMENT:
            return node.attrs["name"] in self.stream_roles
        return node.op is Op.GET_FORK_ITEM

    @property
    def tokens(self) -> Tokens:
        """Control tokens of the graph."""
        if _TOKENS not in self.memo:
            self.memo[_TOKENS] = Tokens(self.graph.nodes)
        found: Tokens = self.memo[_TOKENS]
        return found

    def exclusive(self, one: Node, other: Node) -> bool:
        """Whether the nodes stand under tokens of which at most one arrives."""
        if one.control is None or other.control is None:
            return False
        return self.tokens.exclusive(self.tokens.of_node(one), self.tokens.of_node(other))

    def fork_of(self, node: Node) -> Node | None:
        """The Fork of this graph that a GetForkItem or Join names; None for a captured one."""
        fork = self.node(node.attrs["fork"])
        return fork if fork.op is Op.FORK else None


def constant_width(fork: Node | None) -> int | None:
    """Width of a fork that is known before the run."""
    if fork is None:
        return None
    width, items = fork.attrs.get("width"), fork.attrs.get("items")
    if isinstance(items, list | tuple):
        return len(items)
    return width if isinstance(width, int) else None
