"""Items, slices, attributes and unpacking in rewritten code."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import holds_items, is_container
from sgc.trace.family import RunTimeForks
from sgc.trace.form import Form
from sgc.trace.operand import form_of, holds_spread, holds_symbol, rebuild
from sgc.trace.refusal import refuse
from sgc.trace.run_dicts import is_lookup, lookup, store
from sgc.trace.source import is_user_function
from sgc.trace.symbol import (
    BIND_ADVICE,
    KEY,
    Maybe,
    Poison,
    Spread,
    Symbol,
    check_sure,
    is_mark,
    whole,
)
from sgc.trace.taken import TracedError, TracedType
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_SEQUENCES = (list, tuple, str, bytes, range)


def symbol_item(trace: Trace, value: Any, index: Any) -> Any:
    """`value[index]` of a run-time value, or with a run-time index."""
    if isinstance(index, slice):
        bounds = (index.start, index.stop, index.step)
        return trace.expr("getslice", value, *bounds)
    whole = form_of(value)
    form = _item_form(whole, index)
    args = (trace.operand(value), trace.operand(index))
    is_known = form is not None and (whole.parts is not None or bool(whole.fields))
    node = trace.node(Op.EXPR, {"fn": "getitem", "args": args}, may_fail=not is_known)
    return rebuild(trace, Symbol(trace.region, node, form or Form()))


def _item_form(form: Form, index: Any) -> Form | None:
    if form.kind == "str":
        return Form("str")
    if form.fields:
        return dict(form.fields).get(index) if type(index) is str else None
    if form.parts is None:
        return form.item
    if form.keys is not None:
        return (
            form.parts[form.keys.index(index)]
            if not is_mark(index) and index in form.keys
            else None
        )
    if type(index) is int and -len(form.parts) <= index < len(form.parts):
        return form.parts[index]
    return form.item


class Items:
    """The part of the runtime that looks into values."""

    trace: Trace

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        return slice(start, stop, step)

    def item(self, value: Any, index: Any) -> Any:
        """`value[index]`."""
        if type(value) is Symbol:
            return symbol_item(self.trace, value, index)
        if type(value) is Poison:
            raise refuse(value.why)
        if holds_spread(value):
            return self._spread_item(value, index)
        if isinstance(value, dict):
            if is_lookup(value, index):
                return lookup(self.trace, value, index)
            if holds_symbol(index):
                raise refuse(KEY)
            if isinstance(value, defaultdict):
                return self._default_item(value, index)
            found = value.get(index)
            if type(found) is Maybe:
                return self._maybe(found, index)
        elif isinstance(value, _SEQUENCES) and _is_run_time_index(index):
            listed = list(value) if isinstance(value, range) else value
            return symbol_item(self.trace, listed, index)
        found = self.trace.runtime.dunder(value, "__getitem__")
        return value[index] if found is None else found(index)

    def _default_item(self, value: defaultdict[Any, Any], key: Any) -> Any:
        """An item of a dict that makes the missing ones."""
        if key in value or value.default_factory is None:
            return value[key]
        made = self.trace.runtime.call(value.default_factory)
        self._touch(value)
        value[key] = made
        return made

    def _maybe(self, entry: Maybe, key: Any) -> Any:
        """The value of a key that is set on some paths; Python's error on the others."""

        def missing() -> Any:
            raise KeyError(key)

        runtime = self.trace.runtime
        return runtime.if_expression(self.trace.expr("is_set", entry.value), entry.get, missing)

    def _spread_item(self, value: list[Any], index: Any) -> Any:
        known = next(i for i, v in enumerate(value) if type(v) in (Spread, Poison))
        if type(index) is int and 0 <= index < known:
            return value[index]
        return self.trace.runtime.item(self.as_list(value), index)

    def set_item(self, value: Any, index: Any, new: Any) -> None:
        """`value[index] = new`."""
        if is_lookup(value, index):
            store(self.trace, value, index, new)
            return
        if holds_symbol(index) and not isinstance(value, RunTimeForks):
            if isinstance(value, list):
                raise refuse("a list is changed at a run-time position; make a new list instead")
            raise refuse(KEY)
        if holds_spread(value):
            raise refuse("an item of a list of run-time length is replaced; make a new list")
        found = self.trace.runtime.dunder(value, "__setitem__")
        if found is None:
            self.trace.check_followed(value, "an item")
            self._touch(value)
            value[index] = new
        else:
            found(index, new)

    def delete_item(self, value: Any, index: Any) -> None:
        """`del value[index]`."""
        if holds_spread(value):
            raise refuse("an item of a list of run-time length is deleted; make a new list")
        if holds_symbol(index) or whole(value) is not None:
            raise refuse(KEY if isinstance(value, dict) else "an item is deleted at run time")
        found = self.trace.runtime.dunder(value, "__delitem__")
        if found is None:
            self.trace.check_followed(value, "an item")
            self._touch(value)
            del value[index]
        else:
            found(index)

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name`; getters of user classes run rewritten."""
        cls = type(value)
        if cls is TracedError or cls is TracedType:
            return value.attribute(name)
        if cls.__module__ != "builtins" and not is_mark(value):
            found = getattr(cls, name, None)
            if isinstance(found, property) and is_user_function(found.fget):
                return self.trace.runtime.call(found.fget, value)
            func = getattr(found, "func", None)
            if type(found).__name__ == "cached_property" and is_user_function(func):
                self._touch(value)
                made = self.trace.runtime.call(func, value) if name not in vars(value) else None
                return vars(value).setdefault(name, made)
        return getattr(value, name)

    def set_attribute(self, value: Any, name: str, new: Any) -> None:
        """`value.name = new`; setters of user classes run rewritten."""
        if isinstance(value, type | ModuleType | FunctionType):
            raise refuse(
                f"`{value.__name__}.{name}` is changed, which is state of the whole process; keep "
                "the value in the program"
            )
        found = None if is_mark(value) else getattr(type(value), name, None)
        if isinstance(found, property) and is_user_function(found.fset):
            self.trace.runtime.call(found.fset, value, new)
        else:
            self._touch_attribute(value, name)
            setattr(value, name, new)

    def delete_attribute(self, value: Any, name: str) -> None:
        """`del value.name`; deleters of user classes run rewritten."""
        if isinstance(value, type | ModuleType | FunctionType):
            raise refuse(
                f"`{value.__name__}.{name}` is deleted, which is state of the whole process; keep "
                "the value in the program"
            )
        found = None if is_mark(value) else getattr(type(value), name, None)
        if isinstance(found, property) and is_user_function(found.fdel):
            self.trace.runtime.call(found.fdel, value)
        else:
            self._touch_attribute(value, name)
            delattr(value, name)

    def _touch_attribute(self, value: Any, name: str) -> None:
        if holds_items(value):
            raise refuse(
                f"attribute {name} of a {type(value).__name__}, which holds items too, is changed; "
                "keep it in an object of a class of its own"
            )
        self.trace.check_followed(value, f"attribute {name}")
        self._touch(value)

    def _touch(self, value: Any) -> None:
        """`value` is about to be changed by Python itself."""
        if self.trace.log.frames and is_container(value):
            self.trace.log.touch(value)

    def unpack(self, value: Any, count: int, star: int | None) -> list[Any]:
        """The parts of `a, b = value`, or with a star at position `star`."""
        if is_mark(value) or holds_spread(value):
            return self._unpack_symbol(value, count, star)
        if isinstance(value, RunTimeForks):
            raise refuse("branches of run-time number are unpacked; index or iterate them")
        iterator = self.trace.runtime.iterate(value)
        items = list(iterator if star is not None else islice(iterator, count + 1))
        if any(type(item) is Spread for item in items):
            return self._unpack_symbol(items, count, star)
        if star is None:
            return _exactly(items, count)
        return _with_star(items, count, star)

    def _unpack_symbol(self, value: Any, count: int, star: int | None) -> list[Any]:
        if star is not None:
            raise refuse(f"`*` takes a part of a run-time list; use slices, or {BIND_ADVICE}")
        form = form_of(value)
        fixed = form.parts if form.parts is not None and len(form.parts) == count else None
        listed = value if fixed is not None else self.trace.expr("unpack", value, count)
        return [
            symbol_item(self.trace, _with_parts(listed, fixed, form, count), i)
            for i in range(count)
        ]

    def spread(self, value: Any) -> Any:
        """What follows `*` in a call or display."""
        if is_mark(value) or holds_spread(value) or isinstance(value, RunTimeForks):
            raise refuse(f"`*` of a run-time list; use + for lists, or {BIND_ADVICE}")
        return self.trace.runtime.iterate(value)

    def mapping(self, value: Any) -> Any:
        """What follows `**` in a call or display."""
        if is_mark(value):
            raise refuse(f"`**` of a run-time value; name its entries, or {BIND_ADVICE}")
        return check_sure(value)

    def as_list(self, value: Any) -> Any:
        """Run-time items as one list symbol: what `list(value)` is."""
        from sgc.trace.generator import TracedGenerator
        from sgc.trace.walk import Walk

        trace = self.trace
        if isinstance(value, Walk | RunTimeForks | TracedGenerator):
            return self.as_list(trace.runtime.listed(value))
        if type(value) is list:
            if len(value) == 1 and type(value[0]) is Spread:
                return value[0].value
            attrs = {"fn": "list_of", "args": (trace.operand(value),)}
            node = trace.node(Op.EXPR, attrs, may_fail=False)
            return Symbol(trace.region, node, form_of(value))
        if type(value) is Symbol and value.form.kind != "list":
            return trace.expr("list_of", value)
        return value

    def length(self, value: Any) -> Any:
        """`len(value)` of something that a Loop walks."""
        if isinstance(value, RunTimeForks):
            return value.family.width
        if type(value) is Symbol or holds_spread(value):
            return self.trace.expr("len", value)
        return len(value)


def _is_run_time_index(index: Any) -> bool:
    if isinstance(index, slice):
        return any(map(is_mark, (index.start, index.stop, index.step)))
    return is_mark(index)


def _with_parts(value: Any, fixed: Any, form: Form, count: int) -> Any:
    if fixed is not None or type(value) is not Symbol or form.item is None:
        return value
    parts = (form.item,) * count
    return Symbol(value.region, value.node, Form("list", form.item, parts))


def _exactly(items: list[Any], count: int) -> list[Any]:
    if len(items) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


def _with_star(items: list[Any], count: int, star: int) -> list[Any]:
    least = count - 1
    if len(items) < least:
        raise ValueError(
            f"not enough values to unpack (expected at least {least}, got {len(items)})"
        )
    behind = count - star - 1
    end = len(items) - behind
    return [*items[:star], items[star:end], *items[end:]]
