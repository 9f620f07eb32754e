"""Calls: user functions run rewritten, modelled ones record, library code is foreign."""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import TYPE_CHECKING, Any

from sgc.lang.tools import Tool
from sgc.trace.builtin_functions import KEYS_COUNT, MODELLED
from sgc.trace.context import MAX_DEPTH
from sgc.trace.env import Frame
from sgc.trace.generator import TracedGenerator, checked, materialize
from sgc.trace.operand import holds_spread, holds_symbol, walk
from sgc.trace.refusal import is_rewritten, refuse
from sgc.trace.rewriter import rewrite
from sgc.trace.run_dicts import settle
from sgc.trace.snapshot import reach_of_function
from sgc.trace.source import is_user_file, is_user_function
from sgc.trace.symbol import BIND_ADVICE, Poison, Symbol, SymbolMethod, as_data, is_mark

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_CHANGING = ("time", "random", "secrets", "uuid")
_CHANGES_NOTHING = ("re", "datetime", "fractions", "decimal", "pathlib", "uuid", "enum")


class Calls:
    """The part of the runtime that calls."""

    trace: Trace
    _natives: dict[int, tuple[FunctionType, Callable[..., Any]]]

    def call(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        """`fn(*args, **kwargs)`."""
        if type(fn) is FunctionType:
            return self._function(fn, args, kwargs)
        if type(fn) is SymbolMethod:
            return fn(*args, **kwargs)
        if is_mark(fn):
            raise refuse(f"a run-time value is called; {BIND_ADVICE}")
        modelled = MODELLED.get(id(fn))
        if modelled is not None:
            if id(fn) in KEYS_COUNT:
                args = tuple(settle(self.trace, arg) for arg in args)
            return modelled(self.trace, *map(as_data, args), **kwargs)
        if type(fn) is MethodDescriptorType and args and _is_receiver(fn, args[0]):
            return self.trace.runtime.method(args[0], fn.__name__, *args[1:], **kwargs)
        if type(fn) is MethodType and type(fn.__func__) is FunctionType:
            return self._function(fn.__func__, (fn.__self__, *args), kwargs)
        if type(fn) is BuiltinFunctionType and _is_bound_to_value(fn):
            return self.trace.runtime.method(fn.__self__, fn.__name__, *args, **kwargs)
        if isinstance(fn, type):
            return self._construct(fn, args, kwargs)
        if type(fn) is functools.partial:
            return self.call(fn.func, *fn.args, *args, **{**fn.keywords, **kwargs})
        if isinstance(fn, Tool):
            return self.call(fn.fn, *args, **kwargs)
        if _is_own(type(fn).__module__):
            return self.own(fn, args, kwargs)
        found = self.trace.runtime.dunder(fn, "__call__")
        if found is not None:
            return self.call(type(fn).__call__, fn, *args, **kwargs)
        return self.foreign(fn, args, kwargs)

    # -- user code --------------------------------------------------------------------------------

    def _function(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if is_rewritten(fn.__code__):
            return self.deeper(fn, fn, args, kwargs)
        modelled = MODELLED.get(id(fn))
        if modelled is not None:
            return modelled(self.trace, *args, **kwargs)
        if _is_own(fn.__module__):
            return self.own(fn, args, kwargs)
        if not is_user_file(fn.__code__.co_filename):
            return self.foreign(fn, args, kwargs)
        if fn.__code__.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
            return self._lazy(fn, args, kwargs)
        return self.deeper(fn, self.native(fn), args, kwargs)

    def native(
        self, fn: FunctionType, kept: str | None = None, line: int = 1
    ) -> Callable[..., Any]:
        """The rewritten form of a user's function."""
        found = self._natives.get(id(fn))
        if found is None:
            made = rewrite(fn, kept, line).make(self, fn)
            found = self._natives[id(fn)] = (fn, made)
        return found[1]

    def deeper(
        self, fn: FunctionType, native: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call the rewritten form of `fn` in a frame of its own."""
        frames = self.trace.frames
        depth = sum(1 for f in frames if f.fn is not None and f.fn.__code__ is fn.__code__)
        if depth >= MAX_DEPTH:
            raise refuse(
                f"{fn.__name__} calls itself more than {MAX_DEPTH} deep; a program's recursion "
                "must end by constant arguments within that depth"
            )
        frames.append(Frame(fn))
        try:
            return native(*args, **kwargs)
        finally:
            frames.pop()

    def _lazy(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A generator function of the user runs as it is, so it must not see run-time values."""
        reach = [args, kwargs, *reach_of_function(fn)]
        if any(holds_symbol(value) for value in reach):
            kind = "an async" if fn.__code__.co_flags & inspect.CO_COROUTINE else "a generator"
            raise refuse(
                f"{fn.__name__} is {kind} function and got a run-time value; return a list"
            )
        self.trace.log.touch_all(reach)
        return self.trace.runtime.own_iterator(fn(*args, **kwargs))

    def _construct(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`cls(...)`; `__init__` of user classes runs rewritten."""
        init, new = getattr(cls, "__init__"), cls.__new__  # noqa: B009
        if _is_own(cls.__module__):
            return self.own(cls, args, kwargs)
        if not _is_plain_class(cls) or not holds_symbol((args, kwargs)):
            is_user = is_user_function(init) and new is object.__new__ and type(cls) is type
            if not is_user:
                return self.foreign(cls, args, kwargs)
        if _is_generated(cls):
            return cls(*args, **kwargs)
        if new is not object.__new__:
            return self.foreign(cls, args, kwargs)
        made = new(cls)
        if is_user_function(init):
            self.call(init, made, *args, **kwargs)
        elif args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return made

    # -- code that is not rewritten ---------------------------------------------------------------

    def own(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a primitive, program or stream method of sgc."""
        return fn(
            *map(self.own_argument, args), **{k: self.own_argument(v) for k, v in kwargs.items()}
        )

    def own_argument(self, value: Any) -> Any:
        """An argument for code of sgc: generators and lists of run-time length as one value."""
        made = materialize(self.trace, value)
        return self.trace.runtime.as_list(made) if holds_spread(made) else made

    def foreign(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call library code natively; refused if any run-time value is inside of its arguments."""
        given = [*args, *kwargs.values()]
        for value in given:
            self._check_foreign(fn, value)
        if _is_clock(fn):
            self.trace.warn(f"{_name(fn)} is called once, when compiling; its value is baked in")
        self.trace.log.touch_all(given)
        args = tuple(self._guarded(a) for a in args)
        kwargs = {k: self._guarded(v) for k, v in kwargs.items()}
        return self.trace.runtime.own_iterator(fn(*args, **kwargs))

    def _check_foreign(self, fn: Any, value: Any) -> None:
        if isinstance(value, TracedGenerator) or not holds_symbol(value):
            return
        poison = next((v for v in walk(value) if type(v) is Poison), None)
        if poison is not None:
            raise refuse(poison.why)
        raise refuse(f"{_name(fn)} got a run-time value; {BIND_ADVICE}")

    def _guarded(self, value: Any) -> Any:
        if isinstance(value, TracedGenerator):
            return checked(value.elements())
        is_own = any(own is value for own, _ in self.trace.region.iterators)
        return checked(value) if is_own and not inspect.isgenerator(value) else value

    def foreign_method(
        self, owner: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call a method of a library's object, whose hidden state no loop body may change."""
        self._check_foreign(method, owner)
        module = type(owner).__module__.partition(".")[0]
        if module not in _CHANGES_NOTHING and not isinstance(owner, ModuleType | type):
            self.trace.check_followed(owner, f"`{getattr(method, '__name__', method)}`")
        return self.foreign(method, args, kwargs)


def _is_own(module: str | None) -> bool:
    name = module or ""
    return name.startswith(("sgc.lang.", "sgc.trace.", "sgc_ir.")) or name in (
        "sgc.program", "sgc.compile", "sgc",
    )  # fmt: skip


def _is_generated(cls: type) -> bool:
    """Whether the constructor only stores its arguments: dataclasses, named tuples."""
    if issubclass(cls, tuple):
        return hasattr(cls, "_fields")
    init = cls.__dict__.get("__init__")
    plain = getattr(getattr(init, "__code__", None), "co_filename", "") == "<string>"
    return dataclasses.is_dataclass(cls) and plain and not hasattr(cls, "__post_init__")


def _is_plain_class(cls: type) -> bool:
    return type(cls) is type and (
        _is_generated(cls) or is_user_function(getattr(cls, "__init__"))  # noqa: B009
    )


def _name(fn: Any) -> str:
    name = getattr(fn, "__qualname__", None) or getattr(fn, "__name__", None) or repr(fn)
    module = (getattr(fn, "__module__", None) or "").lstrip("_")
    is_bare = module in ("builtins", "main__", "") or getattr(builtins, name, None) is fn
    return name if is_bare else f"{module}.{name}"


def _is_receiver(method: Any, value: Any) -> bool:
    """Whether `value` is certainly of the class of an unbound method, as in `str.upper(x)`."""
    owner = method.__objclass__
    kind = value.form.kind if type(value) is Symbol else type(value).__name__
    return bool(kind == owner.__name__ and owner in (str, bytes, list, dict, tuple))


def _is_clock(fn: Any) -> bool:
    """Whether a function gives another value at another time."""
    module = (getattr(fn, "__module__", None) or "").partition(".")[0].lstrip("_")
    owner = type(getattr(fn, "__self__", None)).__module__
    name = getattr(fn, "__name__", "")
    return module in _CHANGING or owner in _CHANGING or name in ("now", "today", "utcnow", "getenv")


def _is_bound_to_value(fn: BuiltinFunctionType) -> bool:
    """Whether it is a method of a value, not a module's function or a type's own method."""
    return not isinstance(fn.__self__, ModuleType | type | None)
