"""Slots that the passes of a loop hand on: where they are, what they hold, what cannot be one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from sgc.trace.counts import Count
from sgc.trace.entries import Given, Written
from sgc.trace.form import Form
from sgc.trace.log import put_back, saved
from sgc.trace.loops import Loop
from sgc.trace.operand import rebuild
from sgc.trace.operand import walk as walk_values
from sgc.trace.refusal import Refusal
from sgc.trace.symbol import WHOLE, Poison, Spread, Symbol, Whole
from sgc_ir.graph import UNSET

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region
    from sgc.trace.walk import Walk


@dataclass
class Slot:
    """What one pass of a loop leaves for the next.

    Attributes:
        what: "item" of an environment, dict or object, "list", "dict", "variable" or "count".
        name: parameter of the body.
        entry: what the slot holds before the loop.
        is_maybe: whether it may be unset when a pass begins.
        is_left_set: each pass leaves it set.
        is_late: it is first set in a pass, and there is one: no pass reads what another has left.
    """

    what: str
    owner: Any
    key: Any
    name: str
    entry: Any
    form: Form
    is_maybe: bool = False
    is_late: bool = False
    is_left_set: bool = False


class SlotLoop(Loop):
    """A loop while it is found out what its passes hand on.

    Attributes:
        carried: by the id of the owner and the key.
        lost: (owner, key, why) of what is poisoned.
    """

    def __init__(
        self, trace: Trace, walk: Walk, body: Callable[[Any], Any], gives_value: bool
    ) -> None:
        super().__init__(trace, walk, body, gives_value)
        self.carried: dict[tuple[int, Any], Slot] = {}
        self.numbers = count()
        self.lost: dict[tuple[int, Any], tuple[Any, Any, str]] = {}

    def _put(self, slot: Slot, region: Region, symbol: Symbol, is_maybe: bool) -> None:
        """Give a slot the value of a node: a parameter, or an output."""
        if slot.what == "variable":
            region.writers.add(symbol.node)
            entry = Written(region, symbol.node, slot.form, is_maybe, is_maybe)
            slot.owner.variables[slot.key] = entry
        elif slot.what == "count":
            slot.owner.counts[slot.key] = Count.of(symbol)
        elif slot.what == "list":
            put_back(slot.owner, [Spread(symbol)])
        elif slot.what == "dict":
            put_back(slot.owner, {WHOLE: Whole(symbol)})
        else:
            is_list = type(slot.entry) is list and slot.form.kind == "list"
            value = [Spread(symbol)] if is_list else rebuild(self.trace, symbol)
            put_back(slot.owner, {**saved(slot.owner), slot.key: value})

    def _lose(self, owner: Any, key: Any, why: str) -> None:
        if type(owner) is list:
            put_back(owner, [Poison(why)])
        elif type(owner) is dict and key is None:
            put_back(owner, {WHOLE: Poison(why)})
        else:
            put_back(owner, {**saved(owner), key: Poison(why)})

    def _value(self, slot: Slot) -> Any:
        """What a slot holds now."""
        if slot.what == "variable":
            return slot.owner.variables[slot.key]
        if slot.what == "count":
            return slot.owner.counts[slot.key]
        content = saved(slot.owner)
        return content if slot.what in ("list", "dict") else content[slot.key]

    def _operand(self, slot: Slot) -> Any:
        """What a pass hands on."""
        value = self._value(slot)
        if slot.what == "count":
            return value.lower(self.trace)
        return self._writer(slot, value) if slot.what == "variable" else self.trace.operand(value)

    def _writer(self, slot: Slot, entry: Any) -> Any:
        if entry is None:
            return UNSET
        if isinstance(entry, Written):
            return self.trace.region.lift(Symbol(entry.region, entry.node))
        value = entry.value if isinstance(entry, Given) else None
        if value is None and not isinstance(entry, Given):
            value = slot.owner.value_of(slot.key, entry, "value")
        return self.trace.operand(value)

    def _entry(self, slot: Slot) -> Any:
        if slot.what == "variable":
            return self._writer(slot, slot.entry)
        if slot.what == "count":
            return slot.entry.lower(self.trace)
        return self.trace.operand(slot.entry)

    def _reason_against(self, value: Any, key: Any) -> str | None:
        """Why a value cannot be carried, or None."""
        if type(value) is Poison:
            return value.why
        name = key if isinstance(key, str) else "a value"
        inner = [v for v in walk_values(value) if type(v) in (list, dict)]
        if any(self.base.places(v) > 1 for v in inner):
            return (
                f"`{name}` is a list that has another name too where the loop at line "
                f"{self.place.line} changes it; copy it (list(...) or dict(...))"
            )
        try:
            self.trace.operand(value)
        except Refusal as refusal:
            return refusal.error.reason
        return None

    def _reason_against_end(self, value: Any, key: Any) -> str | None:
        """The same for what a pass leaves in a slot."""
        if self.base.knows(value):
            name = key if isinstance(key, str) else "an item"
            return (
                f"`{name}` becomes a list from outside of the loop at line {self.place.line} in a "
                "pass; copy it (list(...) or dict(...))"
            )
        if type(value) is Poison:
            return value.why
        try:
            self.trace.operand(value)
        except Refusal as refusal:
            return refusal.error.reason
        return None

    def _lose_shared(self) -> None:
        """A list that a pass leaves in two places has two names, which passes would tear apart."""
        seen: dict[int, Slot] = {}
        for slot in list(self.carried.values()):
            if slot.what in ("variable", "count"):
                continue
            content = self._value(slot)
            for value in {id(v): v for v in walk_values(content)}.values():
                if type(value) not in (list, dict) or (
                    value is content and slot.what in ("list", "dict")
                ):
                    continue
                other = seen.setdefault(id(value), slot)
                for one in (slot, other) if other is not slot else ():
                    place = (id(one.owner), one.key)
                    name = one.key if isinstance(one.key, str) else "a list"
                    why = f"`{name}` has another name too when a pass ends; copy it (list(...))"
                    self.lost[place] = (one.owner, one.key, why)
                    self.carried.pop(place, None)
