"""Mutable things whose content the tracer can follow: lists, dicts, sets, objects of the user."""

from __future__ import annotations

import sys
from collections import deque
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from sgc.trace.env import Env
from sgc.trace.source import is_user_file

_LISTS = (list, deque, bytearray)
_IMMUTABLE = (
    str, bytes, int, float, bool, complex, tuple, frozenset, range, type(None), FunctionType,
)  # fmt: skip


def is_container(value: Any) -> bool:
    """Whether the content of `value` can be saved, compared and restored."""
    return isinstance(value, (*_LISTS, dict, set, Env)) or is_object(value)


def holds_items(value: Any) -> bool:
    """Whether items are the content of `value`, so that attributes of a subclass are left out."""
    return isinstance(value, (*_LISTS, dict, set))


def is_module_names(value: Any) -> bool:
    """Whether `value` is the dict of the names of a module, its globals."""
    return type(value) is dict and "__builtins__" in value


def is_object(value: Any) -> bool:
    """Whether `value` is an object of a user's class (or a plain namespace)."""
    if isinstance(value, SimpleNamespace):
        return True
    cls = type(value)
    return is_user_class(cls) and (hasattr(value, "__dict__") or bool(_slots(cls)))


def is_user_class(cls: type) -> bool:
    """Whether a class was written by the user: not by a library, Python, or sgc."""
    if cls.__module__.startswith(("sgc.", "sgc_")):
        return False
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return cls.__module__ not in sys.builtin_module_names if file is None else is_user_file(file)


def is_followed(value: Any) -> bool:
    """Whether a change of `value` would be noticed, or cannot be."""
    if isinstance(value, type | ModuleType | FunctionType):
        return False
    return isinstance(value, _IMMUTABLE) or is_container(value) or _is_own(value)


def _is_own(value: Any) -> bool:
    return type(value).__module__.startswith(("sgc.", "sgc_"))


def _slots(cls: type) -> list[str]:
    found: list[str] = []
    for base in cls.__mro__:
        names = base.__dict__.get("__slots__", ())
        found += [names] if isinstance(names, str) else list(names)
    return [name for name in found if name not in ("__dict__", "__weakref__")]


def content_of(value: Any) -> Any:
    """A shallow copy of what is in a container: a list, or a dict by key or attribute."""
    if isinstance(value, Env):
        return dict(value.slots)
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, (*_LISTS, set)):
        return list(value)
    slots = {n: getattr(value, n) for n in _slots(type(value)) if hasattr(value, n)}
    return {**slots, **getattr(value, "__dict__", {})}


def put_content(value: Any, content: Any) -> None:
    """Give a container the content of a copy."""
    if isinstance(value, (*_LISTS, set)):
        value.clear()
        value.update(content) if isinstance(value, set) else value.extend(content)
    elif isinstance(value, Env | dict):
        target = value.slots if isinstance(value, Env) else value
        target.clear()
        target.update(content)
    else:
        _put_attributes(value, content)


def _put_attributes(value: Any, content: dict[str, Any]) -> None:
    slots = set(_slots(type(value)))
    for name in slots:
        if name in content:
            object.__setattr__(value, name, content[name])
        elif hasattr(value, name):
            object.__delattr__(value, name)
    if hasattr(value, "__dict__"):
        vars(value).clear()
        vars(value).update({n: v for n, v in content.items() if n not in slots})
