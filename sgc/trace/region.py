"""A graph under construction: its nodes so far, and the outer values that it captures."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from sgc.trace.form import Form
from sgc.trace.refusal import refuse
from sgc.trace.symbol import Symbol
from sgc_ir.graph import Graph, Node, Param, Ref, Source
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.lengths import Length

_NUMBERS = count()


class Region:
    """The main graph of a program (no parent), or the body of a Loop."""

    def __init__(
        self, trace: Trace, name: str, place: Source, parent: Region | None = None
    ) -> None:
        self.trace = trace
        self.name = name
        self.place = place
        self.parent = parent
        self.number = next(_NUMBERS)
        self.nodes: list[Node] = []
        self.params: list[Param] = []
        self.captures: dict[str, Ref] = {}  # parameter -> value of the parent
        self._captured: dict[tuple[int, int], int] = {}  # outer symbol -> Argument node here
        self.reads: dict[tuple[Any, ...], Symbol] = {}  # variable reads that can be shared
        self.iterators: list[Any] = []  # made in this region, so they may be consumed in it
        self.order: dict[Any, int] = {}  # fork, or "calls" -> last Loop or Call that used it
        self.touched: dict[Any, None] = {}  # forks that are used here
        self.index: Symbol | None = None  # pass number, in the body of a loop
        self.passes: dict[int, Length] = {}  # Loop node -> number of its passes
        self.foreign_reads: list[tuple[Any, str]] = []  # (family, name) read from other branches

    def encloses(self, other: Region) -> bool:
        """Whether values of this region may be used in `other`."""
        region: Region | None = other
        while region is not None:
            if region is self:
                return True
            region = region.parent
        return False

    def add(
        self,
        op: Op,
        attrs: Mapping[str, Any],
        stream: int,
        source: Source,
        body: Graph | None = None,
    ) -> int:
        """Append a node; gives its id. `attrs` hold operands of this region."""
        node = Node(len(self.nodes), op, stream, dict(attrs), source, None, body)
        for ref in node.refs():
            assert ref.node < node.id, f"operand {ref} of node {node.id} is not earlier"
        self.nodes.append(node)
        return node.id

    def argument(self, param: Param, form: Form) -> Symbol:
        """Declare a parameter; gives its value."""
        self.params.append(param)
        node = self.add(Op.ARGUMENT, {"name": param.name}, -1, self.place)
        return Symbol(self, node, form)

    def lift(self, symbol: Symbol) -> Ref:
        """The value of `symbol` in this region; values of outer regions become captures."""
        if symbol.region is self:
            return Ref(symbol.node)
        if self.parent is None or not symbol.region.encloses(self):
            raise refuse(_leak(symbol))
        node = self._captured.get(symbol.key)
        if node is None:
            name = f"c{len(self.captures)}"
            self.captures[name] = self.parent.lift(symbol)
            self.params.append(Param(name))
            node = self.add(Op.ARGUMENT, {"name": name}, -1, self.place)
            self._captured[symbol.key] = node
        return Ref(node)

    def origin(self, node: int) -> tuple[Region, int] | None:
        """Where the captured value of an Argument comes from, one region further out."""
        made = self.nodes[node]
        ref = self.captures.get(made.attrs["name"]) if made.op is Op.ARGUMENT else None
        return None if ref is None or self.parent is None else (self.parent, ref.node)

    def is_pass_number(self, symbol: Symbol) -> bool:
        """Whether `symbol` is the number of the pass, so that each pass has another value."""
        return self.index is not None and symbol.key == self.index.key

    # -- undoing ----------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """The present state, for `undo`."""
        return (
            len(self.nodes), len(self.params), dict(self.captures), dict(self._captured),
            dict(self.reads), dict(self.order), dict(self.touched),
        )  # fmt: skip

    def undo(self, mark: tuple[Any, ...]) -> None:
        """Go back to `mark`."""
        num_nodes, num_params, captures, captured, reads, order, touched = mark
        del self.nodes[num_nodes:], self.params[num_params:]
        self.captures, self._captured = dict(captures), dict(captured)
        self.reads, self.order, self.touched = dict(reads), dict(order), dict(touched)


def _leak(symbol: Symbol) -> str:
    if symbol.region.trace.is_active:
        where = symbol.region.place
        if symbol.region.parent is None:
            return f"a value of program {symbol.region.name} is used outside of it; pass it"
        return (
            f"a value from a pass of the loop at line {where.line} is used outside of that pass; "
            "collect the values in a list (one append a pass), or a comprehension"
        )
    return "a run-time value was kept from an earlier compilation; make it anew in the program"
