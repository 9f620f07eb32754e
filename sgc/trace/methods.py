"""Method calls of rewritten code: those of texts and containers that hold run-time values."""

from __future__ import annotations

from collections.abc import Callable
from string import Formatter
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from sgc.trace import run_dicts
from sgc.trace.containers import is_container
from sgc.trace.generator import TracedGenerator, materialize
from sgc.trace.operand import holds_spread, holds_symbol
from sgc.trace.ordering import sort_in_place
from sgc.trace.refusal import refuse
from sgc.trace.symbol import (
    BIND_ADVICE,
    KEY,
    Maybe,
    Poison,
    Spread,
    Symbol,
    check_sure,
    is_mark,
    is_stream,
    whole,
)
from sgc.trace.walk import Walk
from sgc_ir.expr_methods import METHODS

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_SPREAD_METHODS = ("append", "extend", "copy", "clear")
_SEARCHES = ("index", "count")


class Methods:
    """The part of the runtime that calls methods."""

    trace: Trace

    def method(self, owner: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """`owner.name(*args, **kwargs)`."""
        if type(owner) is Symbol:
            return self._symbol_method(owner, name, args, kwargs)
        if type(owner) is Poison:
            raise refuse(owner.why)
        kind = type(owner)
        if kind is str or kind is bytes:
            return self._text_method(owner, name, args, kwargs)
        if self.trace.log.frames and is_container(owner):
            self.trace.log.touch(owner)
        if kind is list:
            return self._list_method(owner, name, args, kwargs)
        if kind is tuple and name in _SEARCHES and holds_symbol((owner, args)):
            return self.trace.expr(f".{name}", owner, *args)
        if kind is dict and name in ("keys", "values", "items"):
            run_dicts.settle(self.trace, owner)
        if kind is dict and (whole(owner) is not None or (args and type(args[0]) is Symbol)):
            if name != "update" and not kwargs:
                return run_dicts.method(self.trace, owner, name, args)
        if isinstance(owner, dict) and args and name in ("get", "pop", "setdefault"):
            if holds_symbol(args[0]):
                raise refuse(KEY)
            if type(owner.get(args[0])) is Maybe:
                return self._maybe_entry(owner, name, *args)
        return self._other_method(owner, name, args, kwargs)

    def change_default(
        self, owner: Any, key: Any, default: Any, how: str, more: Callable[[], Any]
    ) -> Any:
        """`owner.setdefault(key, default).append(more())`, or extend."""
        if run_dicts.is_lookup(owner, key) and type(default) is list:
            return run_dicts.change_default(self.trace, owner, key, default, how, more)
        return self.method(self.method(owner, "setdefault", key, default), how, more())

    def _maybe_entry(self, owner: dict[Any, Any], name: str, key: Any, default: Any = None) -> Any:
        """`get`, `setdefault` or `pop` of a key that is set on some paths only."""
        entry, runtime = owner[key], self.trace.runtime
        is_set = self.trace.expr("is_set", entry.value)
        if name == "pop":
            raise refuse("`.pop` of a key that is set on some paths only; set it before")
        value = runtime.if_expression(is_set, entry.get, lambda: default)
        if name == "setdefault":
            self.trace.log.touch(owner)
            owner[key] = value
        return value

    def _other_method(
        self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        runtime = self.trace.runtime
        if is_stream(owner):
            return runtime.own(getattr(owner, name), args, kwargs)
        found = runtime.attribute(owner, name)
        if isinstance(owner, ModuleType | type) or type(found) in (FunctionType, MethodType):
            return runtime.call(found, *args, **kwargs)
        if isinstance(owner, dict | set | frozenset):
            if name not in ("get", "setdefault", "copy"):
                check_sure(owner)
            args = tuple(materialize(self.trace, a) for a in args)
            return self._container_method(owner, found, args, kwargs)
        if getattr(found, "__self__", None) is owner:
            return runtime.foreign_method(owner, found, args, kwargs)
        return runtime.call(found, *args, **kwargs)

    def _container_method(
        self, owner: Any, found: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Python's own method; a symbol in it refuses where it would be hashed or compared."""
        for value in map(check_sure, args):
            if (type(value) is Symbol and found.__name__ == "update") or holds_spread(value):
                raise refuse(KEY)
        return found(*args, **kwargs)

    def _symbol_method(
        self, owner: Symbol, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        method = getattr(owner, name)  # refuses what the table lacks
        return method(*map(self._data, args), **{k: self._data(v) for k, v in kwargs.items()})

    def _data(self, value: Any) -> Any:
        return materialize(self.trace, value)

    def _text_method(
        self, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        args = tuple(self._data(a) for a in args)
        if not holds_symbol((args, kwargs)):
            return getattr(owner, name)(*args, **kwargs)
        if f".{name}" not in METHODS:
            raise refuse(f"str.{name} got a run-time value; {BIND_ADVICE}")
        if name == "format":
            return self._format(owner, args, kwargs)
        return self.trace.expr(f".{name}", owner, *args, **kwargs)

    def _format(self, template: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for _, field, spec, _ in Formatter().parse(template):
            for part in (field, *(f for _, f, _, _ in Formatter().parse(spec or ""))):
                if part is not None and "." in part.partition("[")[0]:
                    raise refuse(
                        f"format field {{{part}}} reads an attribute, which is not compiled; pass "
                        "the attribute as a value of its own"
                    )
        return self.trace.expr("str.format", template, args, kwargs)

    # -- lists ------------------------------------------------------------------------------------

    def _list_method(
        self, owner: list[Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if name == "extend" and len(args) == 1:
            return self._extend(owner, args[0])
        if name == "sort":
            return sort_in_place(self.trace, owner, **kwargs)
        if name in _SEARCHES and holds_symbol((owner, args)):
            return self.trace.expr(f".{name}", owner, *args)
        if holds_spread(owner) and name not in _SPREAD_METHODS:
            poison = next((v for v in owner if type(v) is Poison), None)
            raise refuse(
                poison.why
                if poison is not None
                else f"`.{name}` of a list of run-time length is not compiled; make a new list"
            )
        return getattr(owner, name)(*args, **kwargs)

    def _extend(self, owner: list[Any], more: Any) -> None:
        runtime = self.trace.runtime
        if isinstance(more, TracedGenerator):
            owner.extend(more.elements())
        elif is_mark(more) or isinstance(more, Walk) or runtime.is_run_time(more):
            if holds_spread(more):
                owner.extend(more)
            else:
                listed = runtime.as_list(more)
                owner.extend(listed if type(listed) is list else [Spread(listed)])
        else:
            owner.extend(runtime.iterate(more))
