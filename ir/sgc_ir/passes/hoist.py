"""Hoisting: what both arms of a Branch do first runs before its condition is known.

Requires: nothing. Keeps behaviour, because one of the arms runs whenever the Branch does: its first
nodes in a stream are the next ones of that stream either way. Hoisted are texts, role marks, gens
and selects that are equal in all attributes, ordinal and name included (so paths, seeds and
variables stay), and that read nothing of their arm; tools are not, which would run before what
decides on them. A Branch on failures keeps its arms, since streams go on only when it has taken the
error. Nothing that looks at a stream stands between. In a row whose condition fails, more
calls may have been made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sgc_ir.graph import Graph, Node, Program, Ref, Source, map_refs
from sgc_ir.ops import Op
from sgc_ir.passes.base import Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.texts import looks_at_streams
from sgc_ir.textform.printer import print_node

NAME = "hoist"
_MOVED = (Op.CONSTANT_TEXT, Op.ROLE_BEGIN, Op.ROLE_END, Op.GEN, Op.SELECT, Op.ARGUMENT)
Pair = tuple[Node, Node]


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Hoist in every graph."""
    return each_graph(program, NAME, _hoist)


def _hoist(graph: Graph, notes: Notes) -> Graph:
    branches = [n for n in graph.nodes if n.op is Op.BRANCH and "on" not in n.attrs]
    if not branches:
        return graph
    editor = Editor(graph)
    arms = _Arms(graph)
    same: dict[int, int] = {}  # node of the second arm -> the equal one of the first
    for branch in branches:
        for stream in arms.streams:
            for first, second in arms.pairs(branch, stream, same):
                same[second.id] = first.id
                editor.update(first.id, control=branch.control)
                editor.replace_value(second.id, Ref(first.id))
                editor.drop(second.id)
                notes.add(first, f"both arms of {notes.path(branch)} begin with it")
    return editor.done()


class _Arms:
    """Which nodes of a stream stand in which arm of a Branch."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self.streams: dict[int, list[Node]] = {}  # stream -> its own nodes
        self._looking = [node.id for node in graph.nodes if looks_at_streams(node)]
        for node in graph.nodes:
            if node.appends:
                self.streams.setdefault(node.stream, []).append(node)

    def pairs(self, branch: Node, stream: int, same: dict[int, int]) -> Iterator[Pair]:
        """Equal nodes with which both arms begin in a stream, in order."""
        lists = self._own(branch, stream)
        if not lists:
            return
        hoisted: dict[int, int] = dict(same)
        for first, second in zip(*lists, strict=False):
            if any(branch.id < at < second.id for at in self._looking):
                return
            if not self._is_same(branch, first, second, hoisted):
                return
            hoisted[second.id] = first.id
            yield first, second

    def _own(self, branch: Node, stream: int) -> tuple[list[Node], list[Node]] | None:
        """For the arm that stands first and the other: their nodes up to the first that stands in
        a further arm."""
        behind = [node for node in self.streams[stream] if node.id > branch.id]
        if not behind or behind[0].control is None or behind[0].control[0] != branch.id:
            return None
        arm = behind[0].control[1]
        own: dict[bool, list[Node]] = {True: [], False: []}
        is_over: dict[bool, bool] = {True: False, False: False}
        for node in behind:
            found = self._arms_of(node.control, branch.id)
            if len(found) != 1:
                break  # behind the join of the arms
            (one,) = found
            is_over[one] = is_over[one] or node.control != (branch.id, one)
            if not is_over[one]:
                own[one].append(node)
        return own[arm], own[not arm]

    def _arms_of(self, token: tuple[int, bool] | None, branch: int) -> set[bool]:
        """The arms of a Branch in one of which a token stands; empty where it stands in none."""
        found: set[bool] = set()
        left, seen = [token], set[int]()
        while left:
            one = left.pop()
            if one is None or one[0] < branch:
                continue
            if one[0] == branch:
                found.add(one[1])
            elif one[0] not in seen:
                seen.add(one[0])
                node = self._nodes[one[0]]
                if node.op is Op.MERGE:
                    left += [(ref.node, arm) for ref, arm in node.attrs["tokens"]]
                else:
                    left.append(node.control)
        return found

    def _is_same(self, branch: Node, first: Node, second: Node, hoisted: dict[int, int]) -> bool:
        if first.op not in _MOVED or second.id < first.id:
            return False
        known = set(hoisted.values())
        if any(ref.node > branch.id and ref.node not in known for ref in first.refs()):
            return False
        return _content(first, hoisted) == _content(second, hoisted)


def _content(node: Node, hoisted: dict[int, int]) -> str:
    def one(ref: Ref) -> Ref:
        return Ref(hoisted.get(ref.node, ref.node))

    attrs = {name: map_refs(value, one) for name, value in node.attrs.items()}
    return print_node(replace(node, id=0, control=None, source=Source(), attrs=attrs))
