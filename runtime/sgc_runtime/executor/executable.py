"""What can be known about a program before its rows run; made once, used by every row."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sgc_ir.analysis.needs_graph import Needs
from sgc_ir.analysis.static_prefix import leading
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Program, Ref, forks_of, iter_refs
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_runtime.executor.control_plan import ControlPlan, holds_gates, is_controlled, touched
from sgc_runtime.executor.lifetimes import GraphLives, graph_lives, open_lives
from sgc_runtime.executor.token_bounds import node_bound

NOT_PARAMS = ("name", "ordinal")  # attributes of a Gen or Select that are no parameters
_MAX_CACHED = 32

Step = tuple[Callable[[Any, Node], Any], Node]
Handlers = Mapping[Any, Callable[[Any, Node], Any]]


class GraphPlan:
    """Facts about one graph or loop body.

    Attributes:
        gated: Forks whose branches need a gate: the run decides the width or the path, or a loop
            walks or captures them.
        one_gate: Forks among whose branches the run chooses together, -> the first of them: they
            have one gate.
        forks_root, reads_root: Loops whose passes fork, or read, the stream around the loop as it
            is where the loop stands, since none appends to it.
        control: the order in which nodes may be started, where some stand under tokens.
        holds_gates: of a loop's body: the loop stays at its gates until its passes are through.
        unsure: nodes whose value may turn out to be UNSET, or a handle.
        checked: Variables that read them.
        tried: nodes of which a Branch takes the error.
    """

    def __init__(self, graph: Graph, is_body: bool = False, may_unset: bool = False) -> None:
        self.graph = graph
        controlled = is_controlled(graph)
        self.gated = _gated_forks(graph, controlled)
        self.one_gate = _one_gate(graph)
        bodies = [(node.id, node.body) for node in graph.nodes if node.body is not None]
        loops = [(i, body) for i, body in bodies if ROOT_STREAM not in touched(body)]
        self.forks_root = frozenset(i for i, body in loops if _some_at_root(body, _is_fork))
        self.reads_root = frozenset(i for i, body in loops if _some_at_root(body, _reads_stream))
        at_root = self.forks_root | self.reads_root
        self.holds_gates = is_body and holds_gates(graph)
        self.control = None
        if controlled:
            self.control = ControlPlan(graph, self.gated, at_root, self.one_gate)
        self.unsure = _unsure(graph, is_body) if may_unset else frozenset()
        self.checked = frozenset(n.id for n in graph.nodes if _reads(n, self.unsure))
        self.tried = frozenset(n.attrs["cond"].node for n in graph.nodes if "on" in n.attrs)
        self._params: dict[int, tuple[SamplingParams, SamplingParams]] = {}
        self._leading: dict[int, tuple[Any, ...]] = {}
        self._steps: tuple[Handlers, list[Step]] | None = None

    def steps(self, handlers: Handlers) -> list[Step]:
        """Each node with its handler, in program order; looked up once for all rows."""
        if self._steps is None or self._steps[0] is not handlers:
            self._steps = (handlers, [(handlers[node.op], node) for node in self.graph.nodes])
        return self._steps[1]

    def leading(self, node: Node) -> tuple[Any, ...]:
        """Operands with which the text begins that a node appends."""
        found = self._leading.get(node.id)
        if found is None:
            found = self._leading[node.id] = leading(self.graph, node)
        return found

    def params(self, node: Node, defaults: SamplingParams) -> SamplingParams | None:
        """Parameters of a gen or select with `defaults` filled in; None when the run decides some.

        Raises ValueError or TypeError for a wrong one.
        """
        known = self._params.get(node.id)
        if known is not None and known[0] is defaults:
            return known[1]
        values = {k: v for k, v in node.attrs.items() if k not in NOT_PARAMS}
        if next(iter_refs(tuple(values.values())), None) is not None:
            return None
        params = defaults.override(values)
        self._params[node.id] = (defaults, params)
        return params


class Executable:
    """A program with the plans of its graphs.

    Attributes:
        has_effects: it calls tools that are not pure.
        has_races: it chooses among branches, and cancels others.
        catches: it takes errors.
        in_order: something of it waits for what is before it in program order.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.has_effects = any(effect != "pure" for effect in program.tools.values())
        self.has_races = any(node.op is Op.FIRST for node in program.walk())
        self.catches = any("on" in node.attrs for node in program.walk())
        self.in_order = self.has_effects or self.catches
        self._plans: dict[int, GraphPlan] = {}
        self._needs: tuple[SamplingParams, Needs] | None = None
        self._lives: tuple[SamplingParams, dict[int, GraphLives]] | None = None
        self._part_lives: dict[bool, tuple[SamplingParams, dict[int, GraphLives]]] = {}
        self._may_unset = any(n.op is Op.MERGE or n.attrs.get("carried") for n in program.walk())
        for graph in program.graphs.values():
            self._prepare(graph, is_body=False)

    def _prepare(self, graph: Graph, is_body: bool, is_tried: bool = False) -> None:
        plan = self._plans[id(graph)] = GraphPlan(graph, is_body, self._may_unset)
        if is_tried:  # a Branch takes the error of the whole loop
            plan.tried = frozenset(range(len(graph.nodes)))
        for node in graph.nodes:
            if node.body is not None:
                self._prepare(node.body, is_body=True, is_tried=node.id in plan.tried)

    def needs(self, defaults: SamplingParams) -> Needs:
        """What each graph and node generates and says at most."""
        if self._needs is None or self._needs[0] != defaults:
            bound = partial(node_bound, self.program, defaults=defaults)
            self._needs = (defaults, Needs(self.program, bound))
        return self._needs[1]

    def lives(self, defaults: SamplingParams) -> dict[int, GraphLives]:
        """What the calls of each graph are told, by `id` of the graph."""
        if self._lives is None or self._lives[0] != defaults:
            self._lives = (defaults, graph_lives(self.program, defaults))
        return self._lives[1]

    def part_lives(self, defaults: SamplingParams, is_first: bool) -> dict[int, GraphLives]:
        """`lives` of a program that is a part of a row; `is_first`: nothing stands before it."""
        found = self._part_lives.get(is_first)
        if found is None or found[0] != defaults:
            made = open_lives(self.program, defaults, is_first)
            found = self._part_lives[is_first] = (defaults, made)
        return found[1]

    def plan(self, graph: Graph) -> GraphPlan:
        """The plan of one of the program's graphs or loop bodies."""
        return self._plans[id(graph)]


_cache: OrderedDict[int, Executable] = OrderedDict()


def executable_of(program: Program) -> Executable:
    """The executable of `program`; the last few are kept. Event-loop thread only."""
    found = _cache.get(id(program))
    if found is None or found.program is not program:
        found = _cache[id(program)] = Executable(program)
        if len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    _cache.move_to_end(id(program))
    return found


def _unsure(graph: Graph, is_body: bool) -> frozenset[int]:
    return frozenset(
        node.id
        for node in graph.nodes
        if node.op is Op.MERGE
        or node.attrs.get("field") == "output"
        or (is_body and node.op is Op.ARGUMENT)
    )


def _reads(node: Node, unsure: frozenset[int]) -> bool:
    of = node.attrs.get("of")
    return node.op is Op.VARIABLE and isinstance(of, Ref) and of.node in unsure


def _gated_forks(graph: Graph, controlled: bool) -> frozenset[int]:
    walked: set[int] = set()
    for node in graph.nodes:
        if node.op is Op.LOOP:
            operands = (node.attrs["over"], node.attrs["captures"])
            walked |= {ref.node for ref in iter_refs(operands)}
        elif node.op is Op.GET_FORK_ITEM and isinstance(node.attrs["index"], Ref):
            walked.update(forks_of(node))
    gated: set[int] = set()
    late: set[int] = set()  # branches whose stream the run decides
    for node in graph.nodes:
        if node.op is Op.FORK:
            width = node.attrs.get("width", node.attrs.get("items"))
            late_ordinal = isinstance(node.attrs["ordinal"], Ref) and not controlled
            decided = not isinstance(width, Ref) and not late_ordinal
            if not decided or node.stream in late or node.id in walked:
                gated.add(node.id)
        elif node.op is Op.GET_FORK_ITEM:
            fork = node.attrs["fork"].node
            if fork in gated or graph.nodes[fork].op is Op.ARGUMENT:
                late.add(node.id)
    return frozenset(gated)


def _one_gate(graph: Graph) -> dict[int, int]:
    found: dict[int, int] = {}
    for node in graph.nodes:
        if "more" not in node.attrs:
            continue
        forks = forks_of(node)
        before = {found.get(fork, fork) for fork in forks}
        joined = {*forks, *(at for at, first in found.items() if first in before)}
        found.update(dict.fromkeys(joined, min(joined)))
    return found


def _some_at_root(body: Graph, test: Callable[[Node], bool]) -> bool:
    """Whether a node of the body's own stream, or of a loop that stands in it, passes `test`."""
    return any(
        test(node) or (node.body is not None and _some_at_root(node.body, test))
        for node in body.nodes
        if node.stream == ROOT_STREAM
    )


def _is_fork(node: Node) -> bool:
    return node.op is Op.FORK


def _reads_stream(node: Node) -> bool:
    field = node.attrs.get("field", "")
    return node.op is Op.VARIABLE and field in ("stream_text", "stream_messages")
