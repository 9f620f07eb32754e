"""Expressions over values that are known in part: texts are built, all else is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sgc_ir.analysis.spans import Spans, Unknown, calls_of, is_open, largest
from sgc_ir.expr import FUNCTIONS
from sgc_ir.graph import UNSET

_NUMBER = 24  # tokens of a number or truth value at most
_SHORT = frozenset(
    "== != < <= > >= in not is len int float bool is_set round abs any all".split()
) | {"not in", "is not"}
_NOT_LONGER = frozenset(
    ".strip .lstrip .rstrip .split .rsplit .splitlines .lower .removeprefix .removesuffix getslice "
    "getitem vote min max sorted reversed list_of tuple_of default if".split()
)
# Functions of containers that look at no member, so that these may be unknown.
_STRUCTURE = frozenset(
    "list tuple list_of tuple_of zip enumerate reversed unpack dict_of_set".split()
)


def evaluate_partly(fn: str, args: Sequence[Any], kwargs: Mapping[str, Any], spans: Spans) -> Any:
    """Value of an expression; an `Unknown` where that is all that can be said.

    What the function raises for known operands passes.
    """
    inside = spans.inside((args, kwargs))
    if not inside:
        return FUNCTIONS[fn].call(*args, **kwargs)
    found = _built(fn, args, kwargs)
    if found is not None:
        return found[0]
    high: int | None = None
    if fn in _SHORT:
        high = _NUMBER
    elif fn in _NOT_LONGER:
        high = largest(inside)
    return Unknown(spans.new(0, high, calls_of(inside)))


def as_text(value: Any) -> str | None:
    """`str(value)` with marks, None where the unknown stands inside of a container."""
    if isinstance(value, str | Unknown):
        return str(value)
    return None if isinstance(value, list | tuple | Mapping) else str(value)


def _built(fn: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
    """The value in a tuple, where the parts that are known tell what it is built from."""
    if any(isinstance(a, Unknown) and a.may_be_unset for a in args):
        return None
    if fn in ("text", "str", "concat") or (fn == "format" and args[1:] in ((), ("",))):
        return _joined("", args if fn == "concat" else args[:1])
    if fn == "+" and any(isinstance(arg, str) for arg in args):
        return _joined("", args)
    if fn == "+" and all(isinstance(arg, list) for arg in args):
        return ([*args[0], *args[1]],)
    if fn == ".join" and isinstance(args[1], list | tuple):
        sep = as_text(args[0])
        return None if sep is None else _joined(sep, args[1])
    if fn == "str.format":
        return _formatted(*args)
    return _taken_apart(fn, args, kwargs)


def _taken_apart(fn: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any] | None:
    first = args[0] if args else None
    is_container = isinstance(first, list | tuple | dict)
    if fn in ("list", "tuple") or (fn in _STRUCTURE and _are_containers(fn, args)):
        return (FUNCTIONS[fn].call(*args, **kwargs),)
    if fn == "dict" and all(isinstance(key, str) and key.isprintable() for key in args[::2]):
        return (dict(zip(args[::2], args[1::2], strict=True)),)
    if fn in ("getitem", "getslice") and is_container and not is_open(args[1:]):
        return (FUNCTIONS[fn].call(*args),)
    if fn == "len" and is_container:
        return (len(args[0]),)
    if fn == "is_set":
        return (first is not UNSET,)
    if fn == "default":
        return (args[1] if first is UNSET else first,)
    if fn in ("typed", "set"):
        return (args[0] if fn == "typed" else args[1],)
    if fn == "if" and not is_open((first,)):
        return (args[1] if first else args[2],)
    return None


def _are_containers(fn: str, args: Sequence[Any]) -> bool:
    if fn == "dict_of_set":
        return all(isinstance(key, str) and key.isprintable() for key in args[::2])
    walked = args if fn == "zip" else args[:1]
    return all(isinstance(arg, list | tuple) for arg in walked) and not is_open(
        () if fn == "zip" else args[1:]
    )


def _joined(sep: str, values: Sequence[Any]) -> tuple[str] | None:
    texts = [as_text(value) for value in values]
    known = [text for text in texts if text is not None]
    return (sep.join(known),) if len(known) == len(texts) else None


class _Formatted:
    """Formats as its text where no format is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __format__(self, spec: str) -> str:
        if spec:
            raise ValueError(spec)
        return self._text


def _formatted(template: Any, args: Any, kwargs: Any) -> tuple[str] | None:
    if not isinstance(template, str) or is_open((template,)):
        return None
    try:
        values = [_formattable(value) for value in args]
        return (template.format(*values, **{k: _formattable(v) for k, v in kwargs.items()}),)
    except (ValueError, LookupError, AttributeError, TypeError):
        return None


def _formattable(value: Any) -> Any:
    return _Formatted(str(value)) if is_open((value,)) and as_text(value) is not None else value
