"""Merging of equal calls: what is sure to give the same a second time runs once.

Requires: that fewer calls are wanted; so it runs only where it is asked for. Merged are pure tools
with equal arguments, sub-programs with equal arguments in which nothing is sampled, and branches of
one fork of constant width that append the same and sample nothing; never gens of one stream, whose
prompts differ, and never a call whose temperature the run decides. Keeps variables, result, text
and messages, because the same prompt, parameters and arguments give the same; of two errors of
equal calls one is left. A call merges only into one that runs whenever it does itself: under no
token, or under the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sgc_ir.graph import (
    ROOT_STREAM,
    Graph,
    Node,
    Program,
    Ref,
    Source,
    is_constant,
    iter_refs,
    map_refs,
)
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.textform.printer import print_node

NAME = "merge"
_GREEDY = 1e-6  # temperatures below are greedy
_FAILING = ("fail", "raise_again")
_WRITERS = (Op.GEN, Op.SELECT, Op.CALL, Op.SUB_PROGRAM)


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Merge in every graph."""
    fixed = fixed_graphs(program)
    return each_graph(program, NAME, lambda graph, notes: _Merging(graph, notes, fixed).done())


def fixed_graphs(program: Program) -> set[str]:
    """Graphs that give the same each time: nothing in them is sampled, and no tool has effects."""
    found = set(program.graphs)
    while True:
        wrong = {n for n in found if not all(_is_fixed(x, found) for x in program.graphs[n].walk())}
        if not wrong:
            return found
        found -= wrong


def _is_fixed(node: Node, fixed: set[str]) -> bool:
    attrs = node.attrs
    if node.op is Op.GEN:
        temperature = attrs.get("temperature")
        is_greedy = isinstance(temperature, int | float) and temperature < _GREEDY
        return is_greedy or (attrs.get("seed") is not None and is_constant(attrs["seed"]))
    if node.op is Op.CALL:
        return bool(attrs["effect"] == "pure")
    return node.op is not Op.SUB_PROGRAM or attrs["callee"] in fixed


def _digest(key: str) -> str:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Merging:
    """Numbers values: nodes with equal keys give the same.

    Attributes:
        same: node -> the first one that gives the same.
    """

    def __init__(self, graph: Graph, notes: Notes, fixed: set[str]) -> None:
        self._graph, self._notes, self._fixed = graph, notes, fixed
        self.same: dict[int, int] = {}
        self._first: dict[str, Node] = {}
        self._states: dict[int, str] = {ROOT_STREAM: "root"}  # stream -> key of what it holds
        self._nodes: dict[int, list[int]] = {}  # branch -> nodes in its stream
        self._branches: dict[int, list[int]] = {}  # fork -> branches that may be merged
        self._tried = {n.attrs["cond"].node for n in graph.nodes if "on" in n.attrs}
        self._raced = {r.node for n in graph.nodes for r in iter_refs(n.attrs.get("among"))}
        for node in graph.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        if node.stream != ROOT_STREAM:
            self._nodes.setdefault(node.stream, []).append(node.id)
        if node.op is Op.GET_FORK_ITEM:
            self._open(node)
            return
        key = self._key(node)
        if node.appends or (node.op is Op.EXPR and node.attrs["fn"] == "set"):
            state = self._states.get(node.stream, f"?{node.stream}")
            key = f"{state} {key}"
            self._states[node.stream] = _digest(key)
        first = self._first.setdefault(key, node)
        if first is not node and first.control in (None, node.control):
            self.same[node.id] = first.id

    def _open(self, node: Node) -> None:
        fork = self._graph.nodes[node.attrs["fork"].node]
        is_open = fork.op is not Op.FORK or "items" in fork.attrs
        is_chosen = isinstance(node.attrs["index"], Ref)  # it holds what a branch has been given
        if is_open or is_chosen or not isinstance(fork.attrs.get("width"), int):
            self._states[node.id] = f"?{node.id}"
            return
        self._states[node.id] = f"fork{fork.id}"
        self._branches.setdefault(fork.id, []).append(node.id)

    def _key(self, node: Node) -> str:
        """What decides the node's value; unique where that is not known."""
        of = node.attrs.get("of")
        if isinstance(of, Ref) and self._graph.nodes[of.node].op is Op.GET_FORK_ITEM:
            if node.attrs.get("field") == "item":
                return f"#{node.id}"
            rest = {k: v for k, v in node.attrs.items() if k != "of"}
            return f"{self._states[of.node]} {sorted(rest.items())}"
        if not self._may_merge(node):
            return f"#{node.id}"

        def canonical(ref: Ref) -> Ref:
            return Ref(self.same.get(ref.node, ref.node))

        attrs = {k: map_refs(v, canonical) for k, v in node.attrs.items() if k != "after"}
        if node.op in (Op.CALL, Op.SUB_PROGRAM):
            attrs.pop("ordinal")
        bare = replace(
            node, id=0, stream=ROOT_STREAM, control=None, source=Source(), attrs=attrs, body=None
        )
        return print_node(bare)

    def _may_merge(self, node: Node) -> bool:
        if node.id in self._tried | self._raced:
            return False  # a `try` sees the error of this one only; losers are cancelled
        if node.op is Op.VARIABLE:
            of = node.attrs.get("of")
            return isinstance(of, Ref) and self._graph.nodes[of.node].op in _WRITERS
        if node.op in (Op.GEN, Op.CALL, Op.SUB_PROGRAM):
            return _is_fixed(node, self._fixed)
        plain = (Op.CONSTANT_TEXT, Op.SELECT, Op.ROLE_BEGIN, Op.ROLE_END, Op.ARGUMENT)
        return node.op in plain or (node.op is Op.EXPR and node.attrs["fn"] not in _FAILING)

    # -- what is merged

    def done(self) -> Graph:
        """The graph without what is the same as something before it."""
        editor = Editor(self._graph)
        for node in self._graph.nodes:
            first = self.same.get(node.id)
            if node.op in (Op.CALL, Op.SUB_PROGRAM) and first is not None:
                self._replace(editor, node, first)
                what = node.attrs.get("tool") or node.attrs.get("callee")
                self._notes.add(node, f"{what} is that of {self._path(first)}")
        whole = self._read_as_a_whole()
        for branches in self._branches.values():
            self._merge_branches(editor, branches, whole)
        return editor.done()

    def _path(self, node_id: int) -> str:
        return self._notes.path(self._graph.nodes[node_id])

    def _replace(self, editor: Editor, node: Node, first: int) -> None:
        editor.replace_value(node.id, Ref(first))
        editor.drop(node.id)

    def _merge_branches(self, editor: Editor, branches: list[int], whole: set[int]) -> None:
        kept: dict[str, int] = {}
        for branch in branches:
            first = kept.setdefault(self._states[branch], branch)
            pairs = self._pairs(first, branch)
            if first == branch or pairs is None or {first, branch} & whole:
                continue
            self._notes.add(self._graph.nodes[branch], f"is {self._path(first)} again")
            for old, new in pairs:
                self._replace(editor, self._graph.nodes[old], new)
            self._replace(editor, self._graph.nodes[branch], first)

    def _pairs(self, first: int, branch: int) -> list[tuple[int, int]] | None:
        """Each node of a branch with the one of the first that it is the same as, or None where
        the two are not alike node by node."""
        own, others = self._nodes.get(branch, []), self._nodes.get(first, [])
        if not own or len(own) != len(others):
            return None
        pairs = list(zip(own, others, strict=True))
        return pairs if all(self._is_alike(old, new) for old, new in pairs) else None

    def _is_alike(self, old: int, new: int) -> bool:
        nodes = self._graph.nodes
        if self.same.get(old) != self.same.get(new, new):
            return False
        return new < old and nodes[old].control == nodes[new].control

    def _read_as_a_whole(self) -> set[int]:
        """Branches whose text is appended by a join, or that a loop or a join asks by name."""
        forks: set[int] = set()
        found: set[int] = set()
        for node in self._graph.nodes:
            attrs: Mapping[str, Any] = node.attrs
            if node.op is Op.JOIN and (attrs["mode"] == "append" or attrs.get("vars") is None):
                forks.add(attrs["fork"].node)
            elif node.body is not None:
                captured = {ref.node for ref in node.refs()}
                forks |= captured
                found |= captured
        found |= self._raced
        return found | {b for fork in forks for b in self._branches.get(fork, ())}
