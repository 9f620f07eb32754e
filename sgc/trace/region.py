"""A graph under construction: its nodes so far, and the outer values that it captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from sgc.trace.form import Form
from sgc.trace.refusal import here, refuse
from sgc.trace.symbol import Symbol
from sgc_ir.graph import ROOT_STREAM, Graph, Node, Param, Ref, Source, Token
from sgc_ir.ops import Op
from sgc_ir.tokens import Arms, Tokens

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.lengths import Length
    from sgc.trace.stream import Stream

_NUMBERS = count()
_ALWAYS = (Op.ARGUMENT, Op.MERGE)  # run under no token of their own


class Region:
    """The main graph of a program (no parent), or the body of a Loop.

    Attributes:
        token, arms: under what the next node runs, and its canonical form (`sgc_ir.tokens`).
    """

    _sgc_opaque = True
    _sgc_fields = ("order", "touched")

    def __init__(
        self, trace: Trace, name: str, place: Source, parent: Region | None = None
    ) -> None:
        self.trace = trace
        self.name = name
        self.place = place
        self.parent = parent
        self.root_stream: Any = None  # the stream around a loop, in its body
        self.may_append = False  # whether passes may append to streams from outside
        self.appended = False  # and whether they do
        self.number = next(_NUMBERS)
        self.nodes: list[Node] = []
        self.token: Token | None = None
        self.arms: Arms = None
        self.tokens = Tokens(self.nodes)
        self.domains: dict[int, Any] = {}  # node -> the constants that it may be
        self.texts: set[int] = set()  # nodes whose value is a text
        self.writers: set[int] = set()  # nodes that a Variable reads unchanged
        trace.regions[self.number] = self
        self.stops: dict[int, str] = {}  # node whose error leaves the loop -> what it may be
        self.tried: dict[int, int] = {}  # node that a `try` sees -> its Branch
        self._joins: dict[Arms, int] = {}  # Merges of tokens
        self.params: list[Param] = []
        self.captures: dict[str, Ref] = {}  # parameter -> value of the parent
        self._captured: dict[tuple[int, int], int] = {}  # outer symbol -> Argument node here
        self.reads: dict[tuple[Any, ...], Symbol] = {}  # variable reads that can be shared
        self.iterators: list[tuple[Any, Arms]] = []  # made in this region, and under what
        # fork, or "calls" -> last Loop or Call that used it (on each path that led here)
        self.order: dict[Any, tuple[int, ...]] = {}
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
        is_sure = op in _ALWAYS and not attrs.get("append")
        control = None if is_sure else self.token
        node = Node(len(self.nodes), op, stream, dict(attrs), source, control, body)
        for ref in node.refs():
            assert ref.node < node.id, f"operand {ref} of node {node.id} is not earlier"
        self.nodes.append(node)
        return node.id

    # -- tokens -----------------------------------------------------------------------------------

    def enter(self, arms: Arms) -> None:
        """Nodes from here on run under these arms."""
        self.token, self.arms = self.token_of(arms), arms

    def token_of(self, arms: Arms) -> Token | None:
        """The token that stands for several arms: that of a Merge, made once."""
        if arms is None:
            return None
        if len(arms) == 1:
            return next(iter(arms))
        found = self._joins.get(arms)
        if found is None:
            tokens = tuple((Ref(at), arm) for at, arm in sorted(arms))
            attrs = {"values": (), "tokens": tokens}
            found = self._joins[arms] = self.add(Op.MERGE, attrs, -1, here())
        return found, True

    @contextmanager
    def under(self, arms: Arms) -> Iterator[None]:
        """Record under other arms inside the block."""
        before = self.token, self.arms
        self.enter(arms)
        try:
            yield
        finally:
            self.token, self.arms = before

    def is_there(self, node: int) -> bool:
        """Whether a node's value is there wherever the next node runs."""
        arms = self.tokens.of_node(self.nodes[node])
        return self.tokens.covers(arms, self.arms)

    def known_read(self, key: tuple[Any, ...]) -> Symbol | None:
        """An earlier read of a variable that stands for one here."""
        found = self.reads.get(key)
        if found is None or not self.is_there(found.node):
            return None
        branch = self.tried.get(found.node)
        if branch is None or self.tokens.covers(frozenset([(branch, False)]), self.arms):
            return found
        return None  # it may have failed, and is read again

    def note(self, node: int, domain: Any, is_text: bool) -> None:
        """What is known of the value of a new node."""
        if domain is not None:
            self.domains[node] = domain
        if is_text:
            self.texts.add(node)

    def argument(self, param: Param, form: Form) -> Symbol:
        """Declare a parameter; gives its value."""
        self.params.append(param)
        node = self.add(Op.ARGUMENT, {"name": param.name}, -1, self.place)
        self.note(node, (False, True) if form.kind == "bool" else None, form.kind == "str")
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

    def stream_id(self, stream: Stream) -> int:
        """`Node.stream` of what appends to a stream of this graph or of one around it."""
        if stream.region is self:
            return stream.opener
        self.appended = True
        if stream is self.root_stream:
            return ROOT_STREAM
        return self.lift(Symbol(stream.region, stream.opener)).node

    def origin(self, node: int) -> tuple[Region, int] | None:
        """Where the captured value of an Argument comes from, one region further out."""
        made = self.nodes[node]
        ref = self.captures.get(made.attrs["name"]) if made.op is Op.ARGUMENT else None
        return None if ref is None or self.parent is None else (self.parent, ref.node)

    def is_pass_number(self, symbol: Symbol) -> bool:
        """Whether `symbol` is the number of the pass, so that each pass has another value."""
        return self.index is not None and symbol.key == self.index.key

    def after(self, keys: Iterable[Any]) -> dict[str, Any]:
        """The attribute that keeps program order behind the last nodes of some kinds."""
        nodes = sorted({node for key in keys for node in self.order.get(key, ())})
        last = [node for node in nodes if not self._is_before(node, nodes)]
        if not last:
            return {}
        return {"after": Ref(last[0]) if len(last) == 1 else tuple(map(Ref, last))}

    def _is_before(self, node: int, nodes: list[int]) -> bool:
        """Whether a later one of `nodes` has waited for `node`."""
        arms = self.tokens.of_node(self.nodes[node])
        return any(
            later > node and self.tokens.covers(self.tokens.of_node(self.nodes[later]), arms)
            for later in nodes
        )

    # -- undoing ----------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """The present state, for `undo`."""
        return (
            len(self.nodes), len(self.params), len(self.captures), dict(self.order),
            dict(self.touched), self.token, self.arms,
        )  # fmt: skip

    def undo(self, mark: tuple[Any, ...]) -> None:
        """Go back to `mark`."""
        num_nodes, num_params, num_captures, order, touched, self.token, self.arms = mark
        del self.nodes[num_nodes:], self.params[num_params:]
        self.order, self.touched = dict(order), dict(touched)
        self.tokens.forget(num_nodes)
        self.texts = {node for node in self.texts if node < num_nodes}
        self.writers = {node for node in self.writers if node < num_nodes}
        while self.domains and next(reversed(self.domains)) >= num_nodes:
            self.domains.popitem()
        while self.stops and next(reversed(self.stops)) >= num_nodes:
            self.stops.popitem()
        while self.tried and next(reversed(self.tried)) >= num_nodes:
            self.tried.popitem()
        for made in (self._captured, self._joins):
            _drop_last(made, lambda node: node >= num_nodes)
        while self.passes and next(reversed(self.passes)) >= num_nodes:
            self.passes.popitem()
        _drop_last(self.reads, lambda symbol: symbol.node >= num_nodes)
        while len(self.captures) > num_captures:
            self.captures.popitem()


def _drop_last(made: dict[Any, Any], is_new: Callable[[Any], bool]) -> None:
    """Drop the entries at the end of a dict that are new."""
    while made and is_new(next(reversed(made.values()))):
        made.popitem()


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
