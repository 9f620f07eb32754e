"""Pruning of arms: where the condition of a Branch is a constant, the other arm goes.

Requires: that constants have been folded; what becomes constant by a pruning is folded in turn.
Keeps behaviour, because a Branch does nothing but choose: the arm that is taken runs under what the
Branch ran under, the other one would be dead in every run. A Merge of which one token is left gives
that token's value. A graph in which a variable becomes unset for certain, or a constant stands
where a node must be named, is left as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sgc_ir.graph import UNSET, Graph, Node, Program, Ref, iter_refs
from sgc_ir.ops import Op
from sgc_ir.passes import fold
from sgc_ir.passes.base import Change, Context, Notes, Report, each_graph
from sgc_ir.passes.editor import Editor
from sgc_ir.passes.uses import named_nodes, takes_unset
from sgc_ir.passes.values import is_plain

NAME = "prune"
Token = tuple[int, bool]
_DEAD: Token = (-1, False)  # a token that never arrives


def run(program: Program, context: Context) -> tuple[Program, Report]:
    """Prune every graph."""
    changes: tuple[Change, ...] = ()
    while True:
        program, report = each_graph(program, NAME, _prune)
        changes += report.changes
        if not report.changes:
            return program, Report(NAME, changes)
        program, report = fold.run(program, context)
        changes += report.changes


def _prune(graph: Graph, notes: Notes) -> Graph:
    if not any(_is_decided(node) for node in graph.nodes):
        return graph
    walk = _Walk(graph)
    return walk.done(notes) if walk.is_possible else graph


def _is_decided(node: Node) -> bool:
    return node.op is Op.BRANCH and "on" not in node.attrs and is_plain(node.attrs["cond"])


class _Walk:
    """Goes through a graph and notes what stands for each token.

    Attributes:
        is_possible: whether all that must name a node still does.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._editor = Editor(graph)
        self._asked = named_nodes(graph, of_tokens=False)
        self._set = {  # what must have a value
            ref.node
            for node in graph.nodes
            for name, value in node.attrs.items()
            if not takes_unset(node, name)
            for ref in iter_refs(value)
        }
        self._tokens: dict[Token, Token | None] = {}  # what stands for a token; None: always
        self._dead: set[int] = set()
        self._decided: list[Node] = []
        self.is_possible = True
        for node in graph.nodes:
            self._step(node)

    def _now(self, token: Token | None) -> Token | None:
        return token if token is None else self._tokens.get(token, token)

    def _step(self, node: Node) -> None:
        control = self._now(node.control)
        if node.op is Op.MERGE:
            self._merge(node)
        elif control == _DEAD or node.stream in self._dead:
            self._drop(node)
        elif _is_decided(node):
            taken = bool(node.attrs["cond"])
            self._tokens[node.id, taken] = control
            self._tokens[node.id, not taken] = _DEAD
            self._editor.drop(node.id)
            self._decided.append(node)
        elif control != node.control:
            self._editor.update(node.id, control=control)

    def _drop(self, node: Node) -> None:
        self._dead.add(node.id)
        self._editor.drop(node.id)
        self._tokens[node.id, True] = self._tokens[node.id, False] = _DEAD
        if node.op is Op.RETURN:
            self.is_possible = False  # every path fails

    def _merge(self, node: Node) -> None:
        tokens = [self._now((ref.node, arm)) for ref, arm in node.attrs["tokens"]]
        values = node.attrs["values"]
        left = [i for i, token in enumerate(tokens) if token != _DEAD]
        if not left:
            self._drop(node)
        elif len(left) == 1:
            self._tokens[node.id, True] = tokens[left[0]]
            self._editor.drop(node.id)
            if values:
                self._stand_in(node, values[left[0]])
        else:
            kept: list[tuple[Ref, bool]] = []
            for i in left:
                token = tokens[i]
                if token is None:
                    self.is_possible = False  # two tokens that arrive
                    return
                kept.append((Ref(token[0]), token[1]))
            attrs = {"tokens": tuple(kept), "values": tuple(values[i] for i in left if values)}
            self._editor.set_attrs(node.id, attrs)

    def _stand_in(self, node: Node, operand: Any) -> None:
        self._editor.replace_value(node.id, operand)
        if operand is UNSET and node.id in self._set:
            self.is_possible = False
        elif not isinstance(operand, Ref) and node.id in self._asked:
            self.is_possible = False

    def done(self, notes: Notes) -> Graph:
        for node in self._decided:
            notes.add(node, f"the condition is always {bool(node.attrs['cond'])}")
        graph = self._editor.done()
        last = graph.nodes[-1]
        if ".%" in notes.name or UNSET not in last.attrs["vars"].values():
            return graph  # the Return of a body may hold UNSET
        variables = {k: v for k, v in last.attrs["vars"].items() if v is not UNSET}
        last = replace(last, attrs={**last.attrs, "vars": variables})
        return replace(graph, nodes=(*graph.nodes[:-1], last))
