"""Proof that a stored program obeys the law, without making its nodes.

Rules that look at one node alone look at one node of each shape: what fills a hole makes no
difference to them. Everything between nodes is proven on whole columns, for what most graphs are:
no loops, races, caught failures or branches of several forks, each node under one arm at most,
roles opened and closed in one stream. Nothing is refused here: where the proof fails,
`sgc_ir.verify` looks at every node, and says what is wrong, if anything is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from operator import le, lt
from typing import Any

from sgc_ir import verify_attrs, verify_calls, verify_gen, verify_streams
from sgc_ir.codec_places import (
    Places,
    Unproven,
    ensure,
    fixed_refs,
    ref_columns,
    the_column,
)
from sgc_ir.codec_shapes import NUMBER_HOLE
from sgc_ir.codec_stored import Constant, Fills, Operand, Parts, Shape, StoredGraph, StoredGraphs
from sgc_ir.graph import Graph, Node, Program
from sgc_ir.limits import MAX_NODES
from sgc_ir.ops import OPS, Op
from sgc_ir.verify_control import holds_unset, may_pass_unset
from sgc_ir.verify_scope import Scope, constant_width

# Rules that look at each node by itself.
_LOCAL = (
    verify_attrs.attributes,
    verify_attrs.expressions,
    verify_attrs.forks,
    verify_calls.parameters,
    verify_calls.callees,
    verify_calls.tools,
    verify_gen.parameters,
    verify_gen.budgets,
)
_NOT_HERE = (Op.LOOP, Op.FIRST)
_MANY = 100  # nodes of one path; beyond it all pairs would be too many
_ROLES = (Op.ROLE_BEGIN, Op.ROLE_END)
_ASKED = (Op.JOIN, Op.SUB_PROGRAM, Op.GET_FORK_ITEM)  # a variable of them may not be set


def is_proven(program: Program) -> bool:
    """Whether a program obeys the law for certain; False says nothing."""
    graphs = program.graphs
    if not isinstance(graphs, StoredGraphs):
        return False
    stored = list(graphs.stored.values())
    if sum(len(graph.kinds) for graph in stored) > MAX_NODES:
        return False
    if any(shape.op in _NOT_HERE for graph in stored for shape in graph.shapes):
        return False
    outlines = {graph.header.name: _outline(graph) for graph in stored}
    outline = replace(program, graphs=outlines)
    if any(True for _ in verify_calls.program_facts(outline)):
        return False
    try:
        for graph in stored:
            _Proof(outline, graph).run()
    except Unproven:
        return False
    return verify_calls.recursion(outline) is None


def _outline(graph: StoredGraph) -> Graph:
    """A graph with one node of each shape."""
    return replace(graph.header, nodes=tuple(shape.first() for shape in graph.shapes))


class _Proof:
    """One graph; what is not proven raises Unproven."""

    def __init__(self, outline: Program, graph: StoredGraph) -> None:
        self._graph, self._count = graph, len(graph.kinds)
        self._shapes = graph.shapes
        self._scope = Scope(outline, outline.graphs[graph.header.name], "", syntax=False)
        self._examples = dict(zip(self._shapes, self._scope.graph.nodes, strict=True))
        self._places: Places | None = None

    def run(self) -> None:
        self._check_nodes()
        self._check_references()
        self._check_streams()
        if self._of(Op.BRANCH):
            self._check_arrivals()
        else:
            ensure(not self._of(Op.MERGE) and all(s.controls == 0 for s in self._shapes))
        self._check_unset()
        self._check_forks()
        self._check_roles()
        self._check_paths()
        self._check_variables()

    def _of(self, *ops: Op) -> list[Shape]:
        return [shape for shape in self._shapes if shape.op in ops]

    def _ids(self, *ops: Op) -> set[int]:
        return {node for shape in self._of(*ops) for node in shape.ids}

    # -- nodes by themselves

    def _check_nodes(self) -> None:
        for rule in _LOCAL:
            ensure(not any(True for _ in rule(self._scope)))
        for shape in self._shapes:
            ensure(_is_plain(shape))
            is_set = shape.op is Op.EXPR and self._examples[shape].attrs["fn"] == "set"
            if is_set or shape.op in (Op.GEN, Op.SELECT):
                ensure(not shape.has_empty_text())
        ends = self._of(Op.RETURN)
        ensure(len(ends) == 1 and list(ends[0].ids) == [self._count - 1])
        for shape in self._of(Op.BRANCH):
            ensure(list(shape.attrs) == ["cond"])
        for shape in self._of(Op.MERGE):
            node = self._examples[shape]
            tokens, values = node.attrs["tokens"], node.attrs["values"]
            ensure(bool(tokens) and len(values) in (0, len(tokens)))
        ensure("kind" not in ends[0].attrs)

    def _check_references(self) -> None:
        """Operands are earlier and have a value."""
        mute = self._ids(Op.IMAGE, Op.VIDEO, Op.PREFIX_HINT, *_ROLES)
        tools = self._ids(Op.CALL)
        for shape in self._shapes:
            for name, operand in shape.attrs.items():
                fixed, columns = list(fixed_refs(operand)), list(ref_columns(operand))
                ensure(all(0 <= node < shape.ids[0] for node in fixed))
                ensure(mute.isdisjoint(fixed))
                for column in columns:
                    ensure(all(map(lt, column, shape.ids)) and mute.isdisjoint(column))
                if name == "after":
                    ensure(tools.issuperset(fixed) and all(map(tools.issuperset, columns)))

    def _check_streams(self) -> None:
        branches = self._ids(Op.GET_FORK_ITEM)
        for shape in self._shapes:
            streams = shape.streams
            if isinstance(streams, int):
                streams = (streams,)
            ensure(all(map(le, streams, shape.ids)))
            ensure(all(stream - 1 in branches for stream in set(streams) - {0}))

    # -- arms

    def _check_arrivals(self) -> None:
        self._places = places = Places(self._shapes, self._count)
        places.check_merges()
        for shape in self._shapes:
            needs = list(map(places.of.__getitem__, shape.ids))
            if shape.streams != 0:
                rooted = [(s, n) for s, n in zip(shape.stream_ids(), needs, strict=False) if s >= 0]
                places.check((s for s, _ in rooted), [n for _, n in rooted])
            if shape.op is Op.MERGE:
                continue
            for name, operand in shape.attrs.items():
                if name != "after":
                    for column in ref_columns(operand):
                        places.check(column, needs)
                    places.check_all(fixed_refs(operand), needs)

    def _arm(self, node: int) -> int:
        return self._places.of[node] if self._places is not None else 0

    def _check_unset(self) -> None:
        """What may be unset is read only by what can tell."""
        found = self._unset()
        for shape in self._shapes:
            for name, operand in shape.attrs.items():
                may_hold = shape.op is Op.MERGE and name == "values"
                ensure(may_hold or not _holds_unset(operand))
                if found and not may_pass_unset(self._examples[shape], name):
                    ensure(found.isdisjoint(fixed_refs(operand)))
                    ensure(all(map(found.isdisjoint, ref_columns(operand))))

    def _unset(self) -> set[int]:
        """Merges whose value may be unset."""
        found: set[int] = set()
        reads: list[tuple[int, int]] = []
        for shape in self._of(Op.MERGE):
            values = shape.attrs["values"]
            if _holds_unset(values):
                found.update(shape.ids)
            for column in ref_columns(values):
                reads += zip(shape.ids, column, strict=True)
            for node in fixed_refs(values):
                reads += zip(shape.ids, repeat(node), strict=False)
        if found:
            for merge, read in sorted(reads):
                if read in found:
                    found.add(merge)
        return found

    # -- streams

    def _check_forks(self) -> None:
        """Branches belong to forks and are opened once; joined ones rest."""
        nodes: list[Any] = [None] * self._count
        for shape in self._of(Op.FORK, Op.JOIN):
            for node in shape.nodes():
                nodes[node.id] = node
        forks = {node: constant_width(nodes[node]) for node in self._ids(Op.FORK)}
        self._widths: dict[int, int | None] = {}  # of the fork of a branch
        self._forks: dict[int, int] = {}  # branch -> fork
        seen: set[tuple[int, int]] = set()
        for shape in self._of(Op.GET_FORK_ITEM):
            ensure("more" not in shape.attrs)
            column = the_column(shape.attrs["fork"], len(shape.ids))
            ensure(forks.keys() >= set(column))
            self._forks.update(zip(shape.ids, column, strict=True))
            widths = [forks[fork] for fork in column]
            self._widths.update(zip(shape.ids, widths, strict=True))
            index = _numbers(shape, "index")
            if index is not None:
                known = [2**63 if width is None else width for width in widths]
                ensure(min(index) >= 0 and all(map(lt, index, known)))
                before = len(seen)
                seen.update(zip(column, index, strict=True))
                ensure(len(seen) == before + len(column))
        self._check_joins(nodes)

    def _check_joins(self, nodes: list[Any]) -> None:
        scope = replace(self._scope, graph=replace(self._scope.graph, nodes=tuple(nodes)))
        joined: dict[int, int] = {}  # fork -> its first join
        self._joins: Mapping[int, Node] = {node: nodes[node] for node in self._ids(Op.JOIN)}
        for node, join in sorted(self._joins.items()):
            fork = join.attrs["fork"].node
            ensure(nodes[fork] is not None and nodes[fork].op is Op.FORK)
            ensure(not any(True for _ in verify_streams.join_faults(scope, join)))
            joined.setdefault(fork, node)
        for shape in self._shapes if joined else ():
            if shape.streams != 0 and self._examples[shape].appends:
                last = dict(zip(shape.stream_ids(), shape.ids, strict=False))
                for stream, node in last.items():
                    ensure(stream < 0 or node < joined.get(self._forks[stream], self._count))

    def _check_roles(self) -> None:
        """Roles are opened and closed in turn in one stream and under one arm each, and no branch
        that begins inside a role opens or closes one."""
        if not self._of(*_ROLES):
            return
        turns: list[tuple[int, int, Op, Any]] = []
        for shape in self._of(*_ROLES, Op.FORK):
            role = self._examples[shape].attrs.get("role")
            streams = shape.stream_ids()
            turns += zip(shape.ids, streams, repeat(shape.op), repeat(role), strict=False)
        opened: dict[int, tuple[Any, int]] = {}
        inside: set[int] = set()  # forks inside a role
        for node, stream, op, role in sorted(turns, key=lambda turn: turn[0]):
            is_inside = self._forks.get(stream) in inside
            if op is Op.FORK:
                if is_inside or stream in opened:
                    inside.add(node)
                continue
            ensure(not is_inside)
            if op is Op.ROLE_BEGIN:
                ensure(stream not in opened)
                opened[stream] = role, self._arm(node)
            else:
                ensure(opened.pop(stream, None) == (role, self._arm(node)))
        ensure(not opened)

    def _check_paths(self) -> None:
        """Of two nodes with one path only one runs."""
        keys: list[tuple[int, str, int]] = []
        nodes: list[int] = []
        for shape in self._shapes:
            kind = OPS[shape.op].path_kind
            ordinals = _numbers(shape, "ordinal") if kind else None
            if ordinals is not None:
                keys += zip(shape.stream_ids(), repeat(kind), ordinals, strict=False)
                nodes += shape.ids
        if len(set(keys)) == len(keys):
            return
        shared: dict[tuple[int, str, int], list[int]] = {}
        for key, node in zip(keys, nodes, strict=True):
            others = shared.setdefault(key, [])
            ensure(len(others) < _MANY and all(self._exclusive(node, other) for other in others))
            others.append(node)

    def _exclusive(self, one: int, other: int) -> bool:
        places = self._places
        return places is not None and places.exclusive(places.of[one], places.of[other])

    def _check_variables(self) -> None:
        """Variables that are read are set."""
        asked = self._ids(*_ASKED)
        self._programs = {n.id: n for s in self._of(Op.SUB_PROGRAM) for n in s.nodes()}
        for shape in self._of(Op.VARIABLE):
            field = self._examples[shape].attrs.get("field", "value")
            ensure(field not in ("output", "kind", "error"))
            if field not in ("value", "meta"):
                continue
            column = the_column(shape.attrs["of"], len(shape.ids))
            if asked.isdisjoint(column):
                continue
            for node, writer in zip(shape.nodes(), column, strict=True):
                if writer in asked:
                    self._check_variable(node.attrs["name"], writer)

    def _check_variable(self, name: str, writer: int) -> None:
        if writer in self._joins:
            ensure(name in self._joins[writer].attrs.get("vars", ()))
        elif writer in self._widths:
            ensure(self._widths[writer] is not None)
        else:
            callee = self._programs[writer].attrs["callee"]
            ensure(name in verify_calls.returned(self._scope.program.graphs[callee]))


def _is_plain(shape: Shape) -> bool:
    """Whether values are plain data; references and texts that fill holes are."""
    values = ((name, shape.example(operand, short=True)) for name, operand in shape.attrs.items())
    return not any(verify_attrs.attribute_problem(name, value) for name, value in values)


def _holds_unset(operand: Operand) -> bool:
    if isinstance(operand, Parts):
        return any(map(_holds_unset, operand.items))
    return isinstance(operand, Constant) and holds_unset(operand.value)


def _numbers(shape: Shape, name: str) -> Sequence[int] | None:
    """The numbers that an attribute holds, node by node; None where a run decides."""
    operand = shape.attrs[name]
    if isinstance(operand, Fills):
        return operand.numbers if operand.tag == NUMBER_HOLE else None
    ensure(isinstance(operand, Constant))
    return (operand[0],) * len(shape.ids) if type(operand[0]) is int else None
