"""One stream of the program under compilation: its variables, counters and open role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import (
    Concat,
    Gen,
    Image,
    Primitive,
    Role,
    Select,
    Video,
    check_name,
    parts_of,
)
from sgc.trace.attempts import see
from sgc.trace.counts import ZERO, Count
from sgc.trace.entries import (
    Gathered,
    Given,
    Selected,
    Written,
    check_part,
    choices_of,
    may_be_unset,
    variable_name,
    writer,
)
from sgc.trace.facts import BOTH
from sgc.trace.form import BOOL, STR, Form, common_form, form_of_gen
from sgc.trace.operand import form_of, holds_symbol, is_data
from sgc.trace.refusal import refuse
from sgc.trace.symbol import Symbol
from sgc_ir.graph import ROOT_STREAM, Ref
from sgc_ir.ops import Op
from sgc_ir.params import normalize
from sgc_runtime.executor.tools import own_copy

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region

OUTSIDE = (
    "a stream from outside of the loop over run-time values is changed in its passes; build the "
    'text with "".join(...), or give each item a branch with s.fork_each(...)'
)


class Stream:
    """A stream of the program: what later nodes of it go on from.

    Attributes:
        opener: id in `region` of the GetForkItem that opened it, or ROOT_STREAM.
        variables: name -> last write in program order, in order of first writing.
        counts: "g", "f", "c" -> ordinal of the next call, fork or sub-program.
    """

    _sgc_opaque = True
    _sgc_fields: tuple[str, ...] = (
        "role", "is_joined", "is_moved", "variables", "counts", "unnamed", "stored",
    )  # fmt: skip

    def __init__(self, trace: Trace, region: Region, opener: int, label: str) -> None:
        self.trace = trace
        self.region = region
        self._opener = opener
        self.label = label
        self.role: str | None = None
        self.is_joined = False
        self.is_moved = False  # a run has put it in an order, see `sgc.trace.chosen`
        self.variables: dict[str, Any] = {}
        self.inherited: dict[str, Any] = {}
        self.counts: dict[str, Count] = {"g": ZERO, "f": ZERO, "c": ZERO}
        self.unnamed: int | None = 0
        self.stored: dict[str, None] = {}  # `set` variables that the runtime's stream has too
        trace.streams.append(self)

    @property
    def opener(self) -> int:
        return self._opener

    @property
    def made_by(self) -> tuple[Region, int]:
        """The graph and the node that opened the stream."""
        return self.region, self._opener

    def child(self, opener: int, label: str) -> Stream:
        """A branch of this stream."""
        branch = Stream(self.trace, self.trace.region, opener, label)
        branch.role = self.role
        branch.variables = dict(self.variables)
        branch.inherited = dict(self.variables)
        branch.stored = dict(self.stored)
        return branch

    # -- writing ----------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Refuse a change of a joined stream, or of one outside of the loop that is traced."""
        self._check_moved()
        if self.is_joined:
            raise refuse("this branch was joined; append to the parent, or before the join")
        region = self.trace.region
        while region is not self.region:
            if not region.may_append or region.parent is None:
                raise refuse(OUTSIDE)
            region = region.parent

    def check_forkable(self) -> None:
        """Refuse a fork of a joined stream, or of one that is neither here nor around this loop."""
        if self.region is self.trace.region or self is not self.trace.stream:
            self.check_open()
        elif self.is_joined:
            raise refuse("this branch was joined; fork the parent, or before the join")

    def add(self, op: Op, attrs: Mapping[str, Any], may_fail: bool | None = None) -> int:
        """Record a node that changes this stream; attributes are operands already."""
        self.trace.effects += 1
        self.trace.log.touch(self)
        at = self.trace.region.stream_id(self)
        return self.trace.node(op, attrs, self, may_fail=may_fail, stream_id=at)

    def append(self, x: Any) -> None:
        """`s += x`."""
        self.check_open()
        parts = parts_of(x) if isinstance(x, Primitive) else (x,)
        for part in parts:
            check_part(part, self.role)
        for part in parts:
            self._append_part(part)

    def _append_part(self, part: Any) -> None:
        operand = self.trace.operand
        match part:
            case Symbol():
                self._append_symbol(part)
            case Gen(name, params):
                self._gen(name, params)
            case Select(name, choices, method):
                self._select(name, choices, method)
            case Role(name, parts):
                self.begin_role(name)
                for inner in parts:
                    self._append_part(inner)
                self.end_role()
            case Image(data):
                self.add(Op.IMAGE, {"data": operand(data)})
            case Video(data, num_frames):
                attrs = {"data": operand(data), "num_frames": operand(num_frames)}
                self.add(Op.VIDEO, attrs)
            case Concat(parts):
                for inner in parts:
                    self._append_part(inner)
            case _:
                self._append_value(part)

    def _append_value(self, value: Any) -> None:
        if holds_symbol(value):
            attrs = {"fn": "text", "args": (self.trace.operand(value),), "append": True}
            self.add(Op.EXPR, attrs)
        else:
            text = value if type(value) is str else str(value)
            self.add(Op.CONSTANT_TEXT, {"text": text})

    def _append_symbol(self, symbol: Symbol) -> None:
        ref = self.trace.ref(symbol)
        node = self.trace.region.nodes[ref.node]
        if node.op in (Op.ARGUMENT, Op.VARIABLE) and not node.attrs.get("append"):
            self.add(node.op, {**node.attrs, "append": True}, may_fail=node.op is Op.VARIABLE)
        else:
            is_text = symbol.form.kind == "str"
            attrs = {"fn": "text", "args": (ref,), "append": True}
            self.add(Op.EXPR, attrs, may_fail=not is_text)

    def _gen(self, name: str | None, params: Mapping[str, Any]) -> None:
        constants = {k: v for k, v in params.items() if not holds_symbol(v)}
        values = {**params, **normalize(constants)}
        attrs = {k: self.trace.operand(values[k]) for k in params if values[k] is not None}
        self._call(Op.GEN, name, attrs, form_of_gen(values))

    def _select(self, name: str | None, choices: Any, method: Any) -> None:
        given = {"choices": choices, "method": method}
        constants = {k: v for k, v in given.items() if not holds_symbol(v)}
        values = {**given, **normalize(constants)}
        attrs = {k: self.trace.operand(v) for k, v in values.items()}
        self._call(Op.SELECT, name, attrs, STR)

    def _call(self, op: Op, name: str | None, attrs: Mapping[str, Any], form: Form) -> None:
        ordinal = self.take("g").lower(self.trace)
        variable = name if name is not None else self.next_name()
        node = self.add(op, {"name": variable, "ordinal": ordinal, **attrs})
        self.trace.region.writers.add(node)
        self.trace.region.note(node, choices_of(attrs), form.kind == "str")
        self.write(variable, Written(self.trace.region, node, form))

    def begin_role(self, role: str) -> None:
        """Open a turn."""
        self.check_open()
        if self.role is not None:
            raise refuse(f"{role} turn inside of an open {self.role} turn; roles do not nest")
        self.add(Op.ROLE_BEGIN, {"role": role})
        self.role = role

    def end_role(self) -> None:
        """Close the open turn."""
        self.check_open()
        self.add(Op.ROLE_END, {"role": self.role})
        self.role = None

    # -- counters ---------------------------------------------------------------------------------

    def take(self, kind: str) -> Count:
        """The next ordinal of a kind."""
        self.trace.log.touch(self)
        count = self.counts[kind]
        self.counts[kind] = count + 1
        return count

    def load(self, kind: str) -> None:
        """Make sure that `counts` has this kind."""

    def next_name(self) -> str:
        """Name of the next unnamed gen or select."""
        self.trace.log.touch(self)
        if self.unnamed is None:
            raise refuse(
                "an unnamed gen or select behind arms or passes that made other numbers of them; "
                "give it a name"
            )
        self.unnamed += 1
        return f"_{self.unnamed}"

    # -- variables --------------------------------------------------------------------------------

    def write(self, name: str, entry: Any) -> None:
        """Note the last write of a variable."""
        self.trace.log.touch(self)
        self.variables[name] = entry

    def set(self, name: Any, value: Any) -> None:
        """`s.set(name, value)`."""
        self.check_open()
        check_name("set", name)
        self.trace.operand(value)  # refuses what is no data
        self.write(name, Given(own_copy(value)))
        self.stored.pop(name, None)

    def store(self) -> None:
        """Write all `set` variables to the runtime's stream, whose branches will be asked by
        name."""
        for name, entry in list(self.variables.items()):
            if isinstance(entry, Given) and name not in self.stored:
                self.store_one(name, entry.value)

    def store_one(self, name: str, value: Any) -> None:
        """Write one variable to the runtime's stream; a list or dict can then only be read."""
        self.trace.log.touch(self)
        operand = self.trace.operand(value, self.region)
        attrs = {"fn": "set", "args": (name, operand)}
        node = self.trace.node(Op.EXPR, attrs, self, region=self.region, may_fail=False)
        self.stored[name] = None
        if isinstance(value, list | tuple | dict):
            self.variables[name] = Written(self.region, node, form_of(value))

    def read(self, name: Any, field: str = "value") -> Any:
        """Value or metadata of a variable. Refuses one that was never set."""
        entry = self.entry(variable_name(name))
        if isinstance(entry, Written) and entry.is_maybe and not self._is_known(entry):
            raise refuse(
                f"variable {name!r} is not set on every path; set it before, or use "
                f'{self.short}.get("{name}", default)'
            )
        if entry is None:
            raise refuse(
                f"variable {name!r} is not set in {self.label}; set it before, or use "
                f'{self.short}.get("{name}", default)'
            )
        return self.value_of(name, entry, field)

    @property
    def short(self) -> str:
        return "f" if "[" in self.label else "s"

    def _check_moved(self) -> None:
        if self.is_moved:
            raise refuse(
                "this branch was put in an order that the run decides (sorted, sort, max, min); "
                "use the branches that were given back"
            )

    def entry(self, name: str) -> Any:
        """The last write of `name`, or None."""
        self._check_moved()
        return self.variables.get(name)

    def get(self, name: str, default: Any) -> Any:
        """The value of a variable, or `default` where it is not set on the path."""
        entry, found = self.entry(name), self.has(name)
        if type(found) is not Symbol:
            return self.read(name) if found else default
        if not is_data(default):
            runtime = self.trace.runtime
            return runtime.if_expression(found, lambda: self.read(name), lambda: default)
        form = common_form([entry.form, form_of(default)])
        args = (self.region.lift(Symbol(entry.region, entry.node)), self.trace.operand(default))
        node = self.trace.node(Op.EXPR, {"fn": "default", "args": args}, may_fail=False)
        see(self.trace, self.trace.region, node, "call")
        return Symbol(self.trace.region, node, form)

    def _is_set(self, entry: Written) -> Symbol:
        """Whether a variable that is set on some paths is set."""
        key = ("is_set", entry.node)
        found = entry.region.known_read(key)
        if found is None:
            attrs = {"fn": "is_set", "args": (Ref(entry.node),)}
            node = self.trace.node(Op.EXPR, attrs, self, region=entry.region, may_fail=False)
            entry.region.note(node, BOTH, False)
            entry.region.reads.pop(key, None)
            found = entry.region.reads[key] = Symbol(entry.region, node, BOOL)
        return found

    def _is_known(self, entry: Written) -> bool:
        return self.trace.facts.truth(self._is_set(entry)) is True

    def has(self, name: str) -> Any:
        """Whether a variable is set. Refuses one of which only the run can say it."""
        entry = self.entry(name)
        if isinstance(entry, Written) and entry.is_maybe:
            known = self.trace.facts.truth(self._is_set(entry))
            return self._is_set(entry) if known is None else known
        if may_be_unset(entry):
            raise refuse(
                f"whether variable {name!r} is set depends on the number of branches that wrote "
                "it, which the run decides; set it before, or ask for len of the items"
            )
        return entry is not None

    def value_of(self, name: str, entry: Any, field: str) -> Any:
        """What an entry stands for; calls are read by a Variable node, once a region."""
        if isinstance(entry, Selected) and field != "value":
            raise refuse("metadata of a branch that the run chooses; read it before the ordering")
        if isinstance(entry, Given):
            return entry.value if field == "value" else {}
        if isinstance(entry, Gathered):
            return [self.value_of(name, e, field) for e in entry.entries]
        form = entry.form if field == "value" else Form("dict")
        return self.variable(name, entry.region, entry.node, field, form)

    def variable(self, name: str, region: Region, of: int, field: str, form: Form) -> Any:
        """A Variable node that reads node `of`, or the one that does so already."""
        if region is not self.trace.region and self.trace.takes_errors:
            of, region = self.trace.region.lift(Symbol(region, of)).node, self.trace.region
        key = (name, of, field)
        found = region.known_read(key)
        if found is None:
            attrs: dict[str, Any] = {"name": name, "of": Ref(of)}
            if field != "value":
                attrs["field"] = field
            node = self.trace.node(Op.VARIABLE, attrs, self, region=region, may_fail=False)
            region.reads.pop(key, None)  # the new one stands last, see `Region.undo`
            found = region.reads[key] = Symbol(region, node, form)
            see(self.trace, region, node, "call")
        return found

    def whole(self, field: str) -> Symbol:
        """The text or the messages at this point."""
        self._check_moved()
        attrs: dict[str, Any] = {"name": field, "field": f"stream_{field}"}
        now, at = self.trace.region, self.opener
        region = now if now is self.region or now.may_append else self.region
        if region is not self.region:
            at = region.stream_id(self)
        if at != ROOT_STREAM:
            attrs["of"] = Ref(at)
        node = self.trace.node(
            Op.VARIABLE, attrs, self, region=region, may_fail=False, stream_id=at
        )
        see(self.trace, region, node, "call")
        return Symbol(region, node, STR if field == "text" else Form("list"))

    def final_variables(self) -> dict[str, Any]:
        """Operands of all variables, for the Return. What a join made is left to the Join itself:
        it knows the metadata, and sets nothing where there are no branches."""
        found: dict[str, Any] = {}
        for name, entry in self.variables.items():
            if may_be_unset(entry) or isinstance(entry, Gathered):
                assert isinstance(entry, Written | Gathered)
                value: Any = Symbol(entry.region, entry.node)
            elif self.trace.takes_errors:  # what is read there fails the row
                found[name] = writer(self.trace, self, name, entry)
                continue
            else:
                value = self.value_of(name, entry, "value")
            found[name] = self.trace.operand(value)
        return found
