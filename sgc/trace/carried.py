"""Loops whose passes hand state on, or leave: each slot that a pass changes becomes a parameter.

The body is traced again until nothing new is carried: locals, attributes, values of dicts, contents
of lists, variables and counters of streams. What cannot be carried is poisoned, in the body and
after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import is_object
from sgc.trace.counts import Count
from sgc.trace.emit import BREAK, CONTINUE, RETURN, RETURN_SLOT
from sgc.trace.entries import Written, may_be_unset
from sgc.trace.env import Env
from sgc.trace.family import BranchStream, entry_form
from sgc.trace.form import DICT, INT, LIST, UNKNOWN, Form, common_form
from sgc.trace.log import Path, saved, undo
from sgc.trace.loops import KINDS
from sgc.trace.operand import form_of
from sgc.trace.region import Region
from sgc.trace.run_dicts import check_lookup
from sgc.trace.slots import Slot, SlotLoop
from sgc.trace.stream import Stream
from sgc.trace.symbol import WHOLE, Symbol
from sgc.trace.unused import without_unused
from sgc_ir.graph import Graph, Param, Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.walk import Walk

MAX_SLOTS = 500
_EXITS = {BREAK: 1, RETURN: 2}
_KIND = "$kind"


class CarriedLoop(SlotLoop):
    """A loop with state from pass to pass, or with an exit, as one Loop node.

    Attributes:
        kind: how the loop ends, a run-time value, or 0 where no pass leaves it.
    """

    def __init__(
        self,
        trace: Trace,
        walk: Walk,
        body: Callable[[Any], Any],
        gives_value: bool,
        codes: bool,
        has_pass: bool,
    ) -> None:
        super().__init__(trace, walk, body, gives_value)
        self.has_pass = has_pass
        self.codes = codes
        self.kind: Any = 0
        self.uneven: dict[int, Stream] = {}  # streams that count unnamed calls in passes
        self.moved: dict[tuple[int, str], Count] = {}  # strides of counters, by stream and kind

    # -- one trace of the body --------------------------------------------------------------------

    def _trace_body(self) -> Region:
        trace = self.trace
        region = Region(trace, f"{self.outer.name}.loop", self.place, self.outer)
        region.index = region.argument(Param("index"), INT)
        region.root_stream, region.may_append = trace.stream, True
        with trace.inside(region):
            items = {
                id(leaf): leaf.declare(region, f"item{i}") for i, leaf in enumerate(self.leaves)
            }
            self._open(region)
            self._run_pass(self.walk.bind(region, items))
        return region

    def _open(self, region: Region) -> None:
        """Put parameters into the slots."""
        for owner, key, why in self.lost.values():
            self._lose(owner, key, why)
        for slot in self.carried.values():
            symbol = region.argument(Param(slot.name), slot.form)
            if slot.is_late:
                self._lose(slot.owner, slot.key, self._unset(slot.key))
            else:
                self._put(slot, region, symbol, slot.is_maybe)
        for stream in self.uneven.values():
            stream.unnamed = None
        assert region.index is not None, "a pass has a number"
        passed = Count.of(region.index)
        for stream, _ in self.base.streams:
            for kind, stride in self._strides_of(stream):
                stream.counts[kind] = stream.counts[kind] + passed * stride
        self.header = {id(stream): saved(stream) for stream, _ in self.base.streams}

    def _strides_of(self, stream: Stream) -> list[tuple[str, Count]]:
        return [(kind, c) for (owner, kind), c in self.moved.items() if owner == id(stream)]

    def _run_pass(self, item: Any) -> None:
        if not self.codes:
            self.value = self.body(item)
            return
        control = self.trace.control
        ended = Env({_KIND: 0}, self.trace.log)
        with control.scope(BREAK, CONTINUE, RETURN) as scope:
            code = control.guarded(self.body, item)
            ends: list[tuple[Any, Path]] = []
            if not code or code in scope.catches:
                ends.append((code, control.path(scope.depth)))
            for left, paths in scope.waiting.items():
                ends += [(left, path) for path in paths]
            marked = []
            for left, path in ends:
                control.go(path, scope.frame)
                ended[_KIND] = _EXITS.get(left, 0)
                marked.append(control.path(scope.depth))
            if marked:
                control.join(marked, scope.frame)
            else:  # every path fails
                undo(scope.frame)
                self.trace.region.enter(None)
        self.kind = ended.slots[_KIND]
        self.exits = {_EXITS.get(left, 0) for left, _ in ends}

    # -- what changes -----------------------------------------------------------------------------

    def _is_settled(self, region: Region) -> bool:
        before = self._state()
        for owner, key in list(self.base.changes()):
            self._note_change(owner, key)
        for stream, _ in self.base.streams:
            self._note_stream(stream)
        with self.trace.inside(region):
            for slot in list(self.carried.values()):
                self._widen(slot)
        self._lose_shared()
        return bool(before == self._state())

    def _state(self) -> Any:
        forms = [(key, slot.form, slot.is_maybe) for key, slot in self.carried.items()]
        return forms, list(self.lost), list(self.uneven), dict(self.moved)

    def _note_change(self, owner: Any, key: Any) -> None:
        place = (id(owner), key)
        if place in self.carried or place in self.lost:
            return
        if type(owner) is dict and (id(owner), None) in {*self.carried, *self.lost}:
            return
        base = self.base.content(owner)
        if type(owner) is list:
            self._carry(Slot("list", owner, None, "", list(base), LIST))
        elif not isinstance(owner, Env | dict) and not is_object(owner):
            raise self.refuse(
                f"a {type(owner).__name__} from outside is changed in its passes; use a list"
            )
        elif key == RETURN_SLOT:
            self._carry(Slot("item", owner, key, "", None, UNKNOWN))
        elif type(owner) is dict and (WHOLE in base or key not in base):
            self._carry_dict(owner, base)
        elif key in base:
            self._carry(Slot("item", owner, key, "", base[key], form_of(base[key])))
        elif isinstance(owner, dict):
            raise self.refuse(f"a dict gets the key {key!r} in its passes; set it before the loop")
        elif self.has_pass and isinstance(owner, Env):
            self._carry(Slot("item", owner, key, "", None, UNKNOWN, is_late=True))
        else:
            self.lost[place] = (owner, key, self._unset(key))

    def _carry_dict(self, owner: dict[Any, Any], base: dict[Any, Any]) -> None:
        """A dict that gets keys in the passes is handed on as one value."""
        check_lookup(base)
        for place in [place for place in self.carried if place[0] == id(owner)]:
            del self.carried[place]
        self._carry(Slot("dict", owner, None, "", dict(base), DICT))

    def _unset(self, name: str) -> str:
        return (
            f"`{name}` is first set in a pass of the loop at line {self.place.line}, of which "
            "there may be none, or is read before a pass sets it; set it before the loop"
        )

    def _carry(self, slot: Slot) -> None:
        place = (id(slot.owner), slot.key)
        why = self._reason_against(slot.entry, slot.key)
        if why is not None:
            self.lost[place] = (slot.owner, slot.key, why)
            return
        if len(self.carried) >= MAX_SLOTS:
            raise self.refuse(f"it carries more than {MAX_SLOTS} values from pass to pass")
        slot.name = f"v{next(self.numbers)}"
        if slot.what == "list":
            slot.form = common_form([form_of(slot.entry)])
            slot.form = Form("list", slot.form.item)
        self.carried[place] = slot

    def _widen(self, slot: Slot) -> None:
        """Let the form of a slot hold for what a pass leaves in it, too."""
        if slot.what == "count":
            return
        value = self._value(slot)
        if slot.what == "variable":
            form = entry_form(value)
            slot.is_left_set = not (isinstance(value, Written) and may_be_unset(value))
            slot.is_maybe = slot.is_maybe or not slot.is_left_set
        else:
            why = self._reason_against_end(value, slot.key)
            if why is not None:
                self.lost[id(slot.owner), slot.key] = (slot.owner, slot.key, why)
                del self.carried[id(slot.owner), slot.key]
                return
            form = form_of(value)
        wide = common_form([slot.form, form]) if slot.form != form else form
        slot.form = Form("list", wide.item) if slot.what == "list" else _without_parts(wide)

    def _note_stream(self, stream: Stream) -> None:
        header = self.header[id(stream)]
        if isinstance(stream, BranchStream):
            return
        if stream.role != header["role"] or stream.is_joined != header["is_joined"]:
            raise self.refuse("a chat turn or a branch is opened in a pass and closed in another")
        for name, entry in stream.variables.items():
            if header["variables"].get(name) is not entry:
                self._note_variable(stream, name)
        if stream.unnamed != header["unnamed"]:
            self.uneven[id(stream)] = stream
        for kind, count in stream.counts.items():
            self._note_count(stream, kind, count - header["counts"][kind])

    def _note_variable(self, stream: Stream, name: str) -> None:
        if (id(stream), name) not in self.carried:
            entry = self._base_of(stream)["variables"].get(name)
            form = UNKNOWN if entry is None else entry_form(entry)
            if entry is None:
                form = entry_form(stream.variables[name])
            is_maybe = entry is None or may_be_unset(entry)
            number = f"v{next(self.numbers)}"
            self.carried[id(stream), name] = Slot(
                "variable", stream, name, number, entry, form, is_maybe
            )

    def _base_of(self, stream: Stream) -> dict[str, Any]:
        return next(fields for owner, fields in self.base.streams if owner is stream)

    def _note_count(self, stream: Stream, kind: str, delta: Count) -> None:
        place = (id(stream), f"#{kind}")
        if place in self.carried or delta == self.moved.get((id(stream), kind), Count({})):
            return
        is_known = all(symbol.region.encloses(self.outer) for symbol in delta.symbols)
        if is_known and type(self.kind) is int and (id(stream), kind) not in self.moved:
            self.moved[id(stream), kind] = delta
            return
        self.moved.pop((id(stream), kind), None)
        entry = self._base_of(stream)["counts"][kind]
        name = f"v{next(self.numbers)}"
        self.carried[place] = Slot("count", stream, kind, name, entry, INT)

    # -- the node ---------------------------------------------------------------------------------

    def _finish(self, region: Region) -> Symbol | None:
        trace = self.trace
        if self.gives_value:
            self._check_fresh(self.value)
        with trace.inside(region):
            form = form_of(self.value) if self.gives_value else UNKNOWN
            attrs: dict[str, Any] = {
                "value": trace.operand(self.value) if self.gives_value else None,
                "vars": {slot.name: self._operand(slot) for slot in self.carried.values()},
            }
            if type(self.kind) is not int or self.kind:
                attrs["kind"] = trace.operand(self.kind)
            trace.node(Op.RETURN, attrs, may_fail=False)
        node = self._node(region)
        loop = Symbol(self.outer, node, Form("list", form))
        self._leave(region, node)
        return loop if self.gives_value else None

    def _node(self, region: Region) -> int:
        trace = self.trace
        attrs = {
            "over": self.over,
            "item_params": tuple(f"item{i}" for i in range(len(self.leaves))),
            "index_param": "index",
            "captures": dict(region.captures),
            **self.outer.after(self._used(region)),
        }
        if self.carried:
            attrs["carried"] = {slot.name: self._entry(slot) for slot in self.carried.values()}
        # captures come last: an entry may have needed none, but a lift may add to the outer ones
        graph = Graph(region.name, tuple(region.params), without_unused(region.nodes), self.place)
        at = self.outer.stream_id(trace.stream) if region.appended else None
        may_fail = self.base.has_effects
        node = trace.node(
            Op.LOOP, attrs, body=graph, source=self.place, may_fail=may_fail, stream_id=at
        )
        if region.appended and self.outer.parent is not None:
            self.outer.appended = True
        self.outer.passes[node] = self.length
        trace.log.touch(self.outer)
        for key in self._used(region):
            self.outer.order[key] = (node,)
            self.outer.touched[key] = None
        return node

    # -- after it ---------------------------------------------------------------------------------

    def _leave(self, region: Region, node: int) -> None:
        """Give the slots what the last pass left in them."""
        log = self.trace.log
        for owner, key, why in self.lost.values():
            log.touch(owner)
            self._lose(owner, key, why)
        for stream, fields in self.base.streams:
            if not isinstance(stream, BranchStream):
                log.touch(stream)
                for kind in KINDS:
                    stream.counts[kind] = fields["counts"][kind]
                for kind, stride in self._strides_of(stream):
                    stream.counts[kind] += Count.of(self._num_passes()) * stride
        for slot in self.carried.values():
            log.touch(slot.owner)
            output = self._output(node, slot.name, "output", slot.form)
            is_maybe = slot.is_maybe and not (self.has_pass and slot.is_left_set)
            self._put(slot, self.outer, output, is_maybe)
        self._leave_families(region)
        if type(self.kind) is not int or self.kind:
            ended = self._output(node, "kind", "kind", INT)
            self.outer.note(ended.node, tuple(sorted({0, *self.exits})), False)
            self.kind = ended

    def _output(self, loop: int, name: str, field: str, form: Form) -> Symbol:
        attrs = {"name": name, "of": Ref(loop), "field": field}
        node = self.trace.node(Op.VARIABLE, attrs, may_fail=False)
        self.outer.note(node, None, form.kind == "str")
        return Symbol(self.outer, node, form)


def _without_parts(form: Form) -> Form:
    """A form whose structure may differ from pass to pass."""
    if not form.is_data:
        return form
    return Form(form.kind, form.item if form.kind in ("list", "") else None)
