"""The state of one compilation: graph under construction, active frames and streams, budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sgc.trace import operand as operands
from sgc.trace.attempts import see
from sgc.trace.containers import is_followed
from sgc.trace.control import Control
from sgc.trace.facts import BOTH, Facts
from sgc.trace.form import form_of_expr, is_total
from sgc.trace.log import Log
from sgc.trace.refusal import here, refuse
from sgc.trace.symbol import Symbol
from sgc_ir.expr import check
from sgc_ir.graph import ROOT_STREAM, Graph, Ref, Source
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.attempts import Attempt
    from sgc.trace.env import Frame
    from sgc.trace.forks import Family
    from sgc.trace.region import Region
    from sgc.trace.runtime import Runtime
    from sgc.trace.stream import Stream
    from sgc.trace.subprogram import Callee

MAX_NODES = 50_000
MAX_DEPTH = 24  # frames of one function

_CANNOT_FAIL = frozenset(
    [Op.CONSTANT_TEXT, Op.ARGUMENT, Op.ROLE_BEGIN, Op.ROLE_END, Op.GET_FORK_ITEM, Op.RETURN]
)


class Trace:
    """One compilation. The tracer changes `region`, `stream` and `frames` as it goes.

    Attributes:
        log: what was written, to undo it. facts: what is known of run-time values on this path.
        control: branches and scopes. regions: those of this compilation, by their numbers.
        stream: the stream whose body runs; tool and sub-program calls count on it.
        effects: number of recorded nodes that do something.
        partials: number of recorded nodes that may fail.
        guards: the `try` statements whose handlers would see errors.
        takes_errors: a `try` of the program may take what the run raises. strict: it may take what
            a sub-program raises; what follows a reading ("call"), or whatever may fail ("every"),
            in a sub-program then waits for it.
        unrolled: [place, passes] of the Python loops that are running.
    """

    region: Region
    stream: Stream

    runtime: Runtime

    def __init__(
        self, takes_errors: bool = False, strict: str = "", log: Log | None = None
    ) -> None:
        from sgc.trace.runtime import Runtime

        self.is_active = True
        self.frames: list[Frame] = []
        self.streams: list[Stream] = []
        self.families: list[Family] = []
        self.effects = 0
        self.partials = 0
        self.size = 0
        self.guards: list[Attempt] = []
        self.strict = strict
        self.takes_errors = takes_errors
        self.trials = 0  # operands under evaluation that Python might skip
        self.unrolled: list[list[Any]] = []
        self.graphs: dict[str, Graph] = {}
        self.tools: dict[str, str] = {}
        self.callees: dict[Any, Callee] = {}
        self.main = ""
        self.kept: list[Any] = []
        self.left_iterators: list[Any] = []  # loops have left them on some paths
        self.warnings: dict[str, None] = {}
        self.log = log or Log()
        self.facts = Facts(self)
        self.regions: dict[int, Region] = {}
        self.control = Control(self)
        self.runtime = Runtime(self)

    # -- recording --------------------------------------------------------------------------------

    def node(
        self,
        op: Op,
        attrs: Mapping[str, Any],
        stream: Stream | None = None,
        *,
        region: Region | None = None,
        may_fail: bool | None = None,
        body: Graph | None = None,
        source: Source | None = None,
        stream_id: int | None = None,
    ) -> int:
        """Record a node of `stream` (by default the current one); attributes are operands."""
        where = region if region is not None else self.region
        if op not in _CANNOT_FAIL if may_fail is None else may_fail:
            self.partials += 1
        self._check_size()
        owner = stream if stream is not None else self.stream
        if stream_id is None:
            stream_id = owner.opener if owner.region is where else ROOT_STREAM
        place = source if source is not None else here()
        made = where.add(op, attrs, stream_id, place, body)
        origin = _stops_at(op, attrs) if may_fail is not False else None
        if origin is not None:
            see(self, where, made, origin)
        return made

    def expr(self, fn: str, *args: Any, **kwargs: Any) -> Any:
        """Record `fn(*args, **kwargs)`; gives its symbol. Refuses what the table lacks."""
        reason = check(fn, len(args), tuple(kwargs))
        if reason is not None:
            raise refuse(f"{reason}; use sgc.call with a tool, or bind the argument")
        forms = tuple(operands.form_of(a) for a in args)
        attrs: dict[str, Any] = {"fn": fn, "args": tuple(self.operand(a) for a in args)}
        if kwargs:
            attrs["kwargs"] = {name: self.operand(value) for name, value in kwargs.items()}
        domain = self.facts.of_expr_here(fn, args, kwargs)
        is_safe = not kwargs and (domain is not None or is_total(fn, forms))
        node = self.node(Op.EXPR, attrs, may_fail=not is_safe)
        form = form_of_expr(fn, forms)
        if domain is None and form.kind == "bool" and fn not in ("and", "or", "if"):
            domain = BOTH
        self.region.note(node, domain, form.kind == "str")
        return operands.rebuild(self, Symbol(self.region, node, form))

    def operand(self, value: Any, region: Region | None = None) -> Any:
        """`value` as an operand of a node of `region`; containers are copied."""
        where = region if region is not None else self.region
        if not self.takes_errors:
            return operands.operand(self, value, where)
        with self.unseen():
            return operands.operand(self, value, where)

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """What is recorded inside of the block is no doing of the program: no `try` sees it."""
        guards, self.guards = self.guards, []
        strict, self.strict = self.strict, ""
        try:
            yield
        finally:
            self.guards, self.strict = guards, strict

    def ref(self, symbol: Symbol) -> Ref:
        """`symbol` in the current region."""
        return self.region.lift(symbol)

    # -- limits -----------------------------------------------------------------------------------

    def _check_size(self) -> None:
        self.size += 1
        if self.size <= MAX_NODES:
            return
        advice = "shorten the program, or loop over an argument that is not bound"
        if self.unrolled:
            place, passes = max(self.unrolled, key=lambda entry: entry[1])
            advice = f"the loop at line {place.line} is unrolled {passes} times"
        raise refuse(f"more than {MAX_NODES} nodes; {advice}")

    def check_followed(self, value: Any, what: str) -> None:
        """Refuse a change of hidden state where it would have to be undone or repeated."""
        is_sure = self.region.parent is None and self.region.arms is None
        is_free = is_sure and not self.trials
        if is_free or is_followed(value):
            return
        raise refuse(
            f"{what} of a {type(value).__name__} in a loop or condition over run-time values: its "
            "state cannot be followed; use it before or after, or keep the value in a list"
        )

    def warn(self, what: str) -> None:
        """Note something that is baked into the graph."""
        self.warnings[f"{here()}: {what}"] = None

    @contextmanager
    def inside(self, region: Region, stream: Stream | None = None) -> Iterator[None]:
        """Record into `region` (and run on `stream`) inside the block."""
        before = (self.region, self.stream) if hasattr(self, "region") else None
        self.region = region
        if stream is not None:
            self.stream = stream
        try:
            yield
        finally:
            if before is not None:
                self.region, self.stream = before


def _stops_at(op: Op, attrs: Mapping[str, Any]) -> str | None:
    """With what Python may stop where a node is recorded, see `sgc.trace.attempts.see`; None for
    what fails later, when its stream gets to it."""
    if op is Op.EXPR:
        return None if attrs.get("append") or attrs["fn"] in _LATER else "expr"
    stops = (Op.CALL, Op.FIRST, Op.VARIABLE)
    return "call" if op in stops and not attrs.get("append") else None


_LATER = ("set", "fail", "raise_again")
