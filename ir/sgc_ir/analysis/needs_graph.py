"""Makes the `Need` of each node and graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.analysis.needs import Given, Need, Passes, size_of
from sgc_ir.graph import Graph, Node, Program, Ref, is_constant
from sgc_ir.ops import Op

_ROLE_CHARS = 24  # that a chat template puts around a turn, about
_TOKEN_CHARS = 3  # of generated text that is said again, about
_NO_TEXT = ("len", "int", "float", "bool", "round", "abs", "==", "!=", "<", ">", "<=", ">=", "in")


class Needs:
    """Needs of a program's nodes.

    Args:
        bound: tokens that a gen or select may generate, all samples; None: the run decides.
    """

    def __init__(self, program: Program, bound: Callable[[Node], int | None]) -> None:
        self._program, self._bound = program, bound
        self._graphs: dict[int, Need] = {}
        self._nodes: dict[int, Need] = {}  # by `id` of the node
        self._open: set[int] = set()

    def graph(self, graph: Graph) -> Need:
        """What a run of a graph or loop body needs; open for one that calls itself."""
        key = id(graph)
        if key in self._open:
            return Need(open=1)
        found = self._graphs.get(key)
        if found is None:
            self._open.add(key)
            found = Need()
            texts = _Texts(graph, self._bound)
            for node in graph.nodes:
                texts.visit(node)
                need = self._nodes[id(node)] = self._need(graph, node, texts)
                found.add(need)
            self._open.discard(key)
            self._graphs[key] = found
        return found

    def node(self, node: Node) -> Need:
        """What one node needs, of a graph that was looked at."""
        return self._nodes.get(id(node), _NONE)

    def part(self, node: Node) -> tuple[tuple[Passes, ...] | None, Need, Mapping[str, Given]]:
        """Of a loop or sub-program: bounds of its passes, what one needs, and where the parameters
        come from; see `Need.parts`."""
        return self.node(node).parts[0]

    def _need(self, graph: Graph, node: Node, texts: _Texts) -> Need:
        if node.op in (Op.GEN, Op.SELECT):
            tokens = self._bound(node)
            return Need(open=1) if tokens is None else Need(tokens)
        if node.op is Op.CONSTANT_TEXT:
            return Need(chars=len(node.attrs["text"]))
        if node.op is Op.ROLE_BEGIN:
            return Need(chars=_ROLE_CHARS)
        if node.op is Op.SUB_PROGRAM:
            return self._sub_program(graph, node)
        if node.body is not None:
            given = _body_params(graph, node)
            return Need(parts=[(_passes(graph, node), self.graph(node.body), given)])
        return texts.need(node) if node.appends else _NONE

    def _sub_program(self, graph: Graph, node: Node) -> Need:
        callee = self._program.graphs[node.attrs["callee"]]
        given = {name: _given(graph, operand) for name, operand in node.attrs["args"].items()}
        return Need(parts=[(None, self.graph(callee), given)])


_NONE = Need()


class _Texts:
    """What expressions say."""

    def __init__(self, graph: Graph, bound: Callable[[Node], int | None]) -> None:
        self._graph, self._bound = graph, bound
        self._known: dict[int, Need] = {}

    def need(self, node: Node) -> Need:
        """What an appending node says."""
        return self._known[node.id]

    def visit(self, node: Node) -> None:
        """Look at a node, of which all that it reads was looked at."""
        self._known[node.id] = self._node(node)

    def _operand(self, operand: Any) -> Need:
        if not isinstance(operand, Ref):
            if is_constant(operand):
                return Need(chars=size_of(operand).chars)
            found = Need()
            for item in operand.values() if isinstance(operand, Mapping) else operand:
                found.add(self._operand(item))
            return found
        return self._known[operand.node]

    def _node(self, node: Node) -> Need:
        given = _given_node(self._graph, node)
        if given.name:
            return Need(texts={given: 1})
        if node.op is Op.GEN:
            return Need(chars=_TOKEN_CHARS * (self._bound(node) or 0))
        if node.op is Op.VARIABLE and isinstance(node.attrs.get("of"), Ref):
            return self._operand(node.attrs["of"])
        if node.op is Op.JOIN:
            return self._operand(node.attrs.get("vars"))
        if node.op is Op.EXPR and node.attrs["fn"] not in _NO_TEXT:
            return self._operand(node.attrs["args"])
        return _NONE


def _given(graph: Graph, operand: Any) -> Given:
    if isinstance(operand, Ref):
        return _given_node(graph, graph.nodes[operand.node])
    return Given(size=size_of(operand)) if is_constant(operand) else Given()


def _given_node(graph: Graph, node: Node) -> Given:
    """The parameter that a node gives, or an item of; one without a name where it gives none."""
    if node.op is Op.ARGUMENT:
        return Given(str(node.attrs["name"]))
    if node.op is Op.EXPR and node.attrs["fn"] == "getitem":
        of = _given(graph, node.attrs["args"][0])
        return Given(of.name, True) if of.name and not of.item else Given()
    return Given()


def _passes(graph: Graph, loop: Node) -> tuple[Passes, ...]:
    found = [_length(graph, operand) for operand in loop.attrs["over"]]
    if "max" in loop.attrs:
        found.append(_number(graph, loop.attrs["max"]))
    return tuple(found)


def _number(graph: Graph, operand: Any) -> Passes:
    if isinstance(operand, int):
        return Passes(operand)
    if isinstance(operand, Ref):
        node = graph.nodes[operand.node]
        if node.op is Op.EXPR and node.attrs["fn"] == "len":
            return _length(graph, node.attrs["args"][0])
    given = _given(graph, operand)
    return Passes(value=given) if given.name else Passes()


def _length(graph: Graph, operand: Any) -> Passes:
    if isinstance(operand, list | tuple):
        return Passes(len(operand))
    if not isinstance(operand, Ref):
        return Passes()
    node = graph.nodes[operand.node]
    if node.op is Op.EXPR and node.attrs["fn"] == "range" and len(node.attrs["args"]) == 1:
        return _number(graph, node.attrs["args"][0])
    if node.op is Op.FORK:
        items = node.attrs.get("items")
        return _length(graph, items) if items is not None else _number(graph, node.attrs["width"])
    given = _given_node(graph, node)
    return Passes(length=given) if given.name else Passes()


def _body_params(graph: Graph, loop: Node) -> Mapping[str, Given]:
    found = {name: _given(graph, operand) for name, operand in loop.attrs["captures"].items()}
    for name, operand in zip(loop.attrs["item_params"], loop.attrs["over"], strict=True):
        of = _given(graph, operand)
        found[name] = Given(of.name, True) if of.name and not of.item else Given()
    return found
