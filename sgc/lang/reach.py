"""What a program's function can read from outside: whether its graph is still that of today.

A graph holds the values of globals and closures as they were when it was traced. It may be used
again only while none of them has changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from sgc.lang.function import ProgramSpec
from sgc.lang.source import is_library, is_own_module
from sgc.lang.tools import Tool

MAX_OBJECTS = 5000
PLAIN = (str, bytes, int, float, bool, complex, type(None))
_FIXED = (BuiltinFunctionType, CodeType, ModuleType, re.Pattern, PurePath, Tool, range)


class Reach(NamedTuple):
    """What a function leads to; `complete` unless something among it may change unseen or there
    is too much of it: what is inside of that is left out."""

    values: list[Any]
    complete: bool


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
        if isinstance(value, (*PLAIN, *_FIXED)) or id(value) in seen:
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


def _parts(value: Any) -> list[Any] | None:
    """What is inside of `value`; None for what may change unseen."""
    if isinstance(value, FunctionType):
        return list(_of_function(value))
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if isinstance(value, property | staticmethod | classmethod):
        return [getattr(value, name, None) for name in ("fget", "__func__")]
    if isinstance(value, type):
        own = vars(value) if _is_user(value.__module__) else {}
        return [v for name, v in own.items() if name not in ("__dict__", "__weakref__")]
    spec = getattr(value, "spec", None)
    if isinstance(spec, ProgramSpec):
        return [spec.fn, *spec.bound.values()]
    if not _is_user(type(value).__module__) or not hasattr(value, "__dict__"):
        return None
    return [type(value), *vars(value).values()]


def _is_user(module: str) -> bool:
    """Whether a module is neither a library's nor sgc's own."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "builtins" or is_own_module(module):
        return False
    return module == "__main__" or (file is not None and not is_library(file))


def _of_function(fn: FunctionType) -> Iterator[Any]:
    if is_library(fn.__code__.co_filename) or is_own_module(fn.__module__ or ""):
        return
    yield fn.__code__
    yield fn.__defaults__
    yield fn.__kwdefaults__
    for cell in fn.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            yield None
    yield from _of_code(fn.__code__, fn.__globals__)


def _of_code(code: CodeType, space: dict[str, Any]) -> Iterator[Any]:
    named = [space[name] for name in code.co_names if name in space]
    yield from named
    for module in named:
        if isinstance(module, ModuleType):
            yield from [vars(module)[n] for n in code.co_names if n in vars(module)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _of_code(constant, space)
