"""What a program's function can read from outside: whether its graph is still that of today.

A graph holds the values of globals and closures as they were when it was traced. It may be used
again only while none of them has changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from inspect import getattr_static
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from sgc.lang.function import ProgramSpec
from sgc.lang.source import is_library, is_own_module
from sgc.lang.tools import Tool

MAX_OBJECTS = 5000
PLAIN = (str, bytes, int, float, bool, complex, type(None))
_FIXED = (
    CodeType, GenericAlias, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType,
    UnionType, WrapperDescriptorType, re.Pattern, PurePath, Tool, range,
)  # fmt: skip
_CONTAINERS = (list, tuple, set, frozenset, dict)
_NOT_READ = ("__annotations__", "__dict__", "__weakref__")  # of a class
_WITH_CONTEXT = ("decimal", "_decimal")  # what they give depends on a context that may change
# Code with these names may read what its names do not tell.
_OPEN_NAMES = frozenset(("__dict__", "eval", "exec", "globals", "locals", "vars", "__import__"))
BY_NAME = frozenset(("attrgetter", "getattr", "hasattr", "methodcaller"))
UNSEEN = object()  # stands for what may change unseen


class Reach(NamedTuple):
    """What a function leads to; `complete` unless something among it may change unseen or there
    is too much of it: what is inside of that is left out."""

    values: list[Any]
    complete: bool


_FIELD = type(vars(Reach)["values"])  # a field of a named tuple


def reach(fn: Any, values: Iterable[Any] = ()) -> Reach:
    """Everything that `fn` and `values` lead to, in a fixed order: names that the code reads,
    closures, defaults, and what is in containers and objects of the user's classes."""
    found: list[Any] = []
    complete = True
    seen: set[int] = set()
    todo = [fn, *values]
    while todo:
        value = todo.pop()
        found.append(value)
        if type(value) in PLAIN or isinstance(value, (*_FIXED, _FIELD)) or id(value) in seen:
            continue
        seen.add(id(value))
        parts = _parts(value)
        if parts is None or len(found) + len(todo) + len(parts) > MAX_OBJECTS:
            complete = False
        else:
            todo.extend(parts)
    return Reach(found, complete)


def unchanged(before: Reach, now: Reach) -> bool:
    """Whether two results of `reach` are complete and hold the same objects, or equal plain
    values."""
    whole = before.complete and now.complete and len(before.values) == len(now.values)
    return whole and all(map(_same, before.values, now.values))


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, PLAIN):
        return False
    return bool(a == b) if isinstance(a, str | bytes | int) else repr(a) == repr(b)


def named(names: Collection[str], spaces: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """What `names`, identifiers and constant texts of a piece of code, are in its name spaces,
    and in the modules found there."""
    wanted = sorted(names)
    todo, seen = list(spaces), set()
    while todo:
        space = todo.pop()
        for name in wanted:
            if name not in space:
                continue
            value = space[name]
            yield name
            yield value
            if type(value) is ModuleType and id(value) not in seen:
                seen.add(id(value))
                if is_own_module(value.__name__):
                    continue
                todo.append(vars(value))
                if not BY_NAME.isdisjoint(names) and _is_user(value.__name__):
                    yield UNSEEN
    if not _OPEN_NAMES.isdisjoint(names):
        yield UNSEEN


def _parts(value: Any) -> list[Any] | None:
    """What is inside of `value`; None for what may change unseen."""
    kind = type(value)
    if kind is FunctionType:
        return list(_of_function(value))
    if kind is MethodType:
        return [value.__self__, value.__func__]
    if kind is ModuleType:
        return None if value.__name__ in _WITH_CONTEXT else []
    if kind is BuiltinFunctionType:
        return _of_builtin(value)
    if isinstance(value, property | staticmethod | classmethod):
        return [getattr(value, name, None) for name in ("fget", "__func__")]
    if isinstance(value, type):
        return _of_class(value)
    if is_own_module(kind.__module__):
        spec = getattr_static(value, "spec", None)
        return [spec.fn, *spec.bound.values()] if isinstance(spec, ProgramSpec) else None
    if isinstance(value, (*_CONTAINERS, *PLAIN)):
        return _of_container(value)
    return _of_object(value) if _is_user(kind.__module__) else None


def _of_container(value: Any) -> list[Any] | None:
    """Items, and what a subclass of the user's adds to them."""
    kind = type(value)
    items: list[Any] = []
    if isinstance(value, dict):
        items = [part for item in dict.items(value) for part in item]
    elif isinstance(value, _CONTAINERS):
        items = list(value)
    if kind in _CONTAINERS:
        return items
    if not _is_user(kind.__module__):
        return [*items, getattr(value, "default_factory", None)]
    more = _of_attributes(value) if kind.__dictoffset__ else [kind]
    return None if more is None else items + more


def _of_object(value: Any) -> list[Any] | None:
    """The class of an object of the user's, and what its attributes hold; None where its memory
    holds more than these, as that of a deque's subclass does."""
    kind = type(value)
    if kind.__basicsize__ > _Attributes.__basicsize__ or kind.__itemsize__:
        return None
    return _of_attributes(value)


def _of_attributes(value: Any) -> list[Any] | None:
    kind = type(value)
    if any(vars(base).get("__slots__") for base in kind.__mro__):
        return None
    try:
        held = object.__getattribute__(value, "__dict__")  # calls nothing of the user's
    except AttributeError:
        return None
    return [kind, *held.values()]


class _Attributes:
    """Holds nothing but attributes."""


def _of_class(value: type) -> list[Any] | None:
    if value.__module__ in _WITH_CONTEXT:
        return None
    if not _is_user(value.__module__):
        return []
    own = [v for n, v in vars(value).items() if n not in _NOT_READ]
    return [value.__name__, *own, *value.__bases__, type(value)]


def _of_builtin(value: Any) -> list[Any] | None:
    if (value.__module__ or "") in _WITH_CONTEXT:
        return None
    owner = value.__self__
    return [] if owner is None or isinstance(owner, ModuleType) else [owner]


def _is_user(module: str) -> bool:
    """Whether a module is neither a library's nor sgc's own."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "builtins" or is_own_module(module):
        return False
    return module == "__main__" or (file is not None and not is_library(file))


def _of_function(fn: FunctionType) -> Iterator[Any]:
    if is_own_module(fn.__module__ or ""):
        return
    yield from (fn.__doc__, *vars(fn).values())
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            yield None
    if is_library(fn.__code__.co_filename):
        return
    yield fn.__code__
    yield fn.__defaults__
    yield fn.__kwdefaults__
    yield from named(_names(fn.__code__), [fn.__globals__])


def _names(code: CodeType) -> set[str]:
    """Names in code, and its constant texts, by which `getattr` may name something."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            found.add(constant)
    return found
