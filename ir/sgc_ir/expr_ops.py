"""Operators and built-ins of the expression table, each with Python's own semantics."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NoReturn

from sgc_ir.errors import InputError, ProgramError
from sgc_ir.expr_format import format_percent, format_value
from sgc_ir.expr_limits import (
    MAX_INT_BITS,
    guard_bits,
    guard_items,
    guard_iterable,
    guard_nested,
    guard_printable,
    guard_text,
)
from sgc_ir.graph import UNSET
from sgc_ir.taken_error import TakenError
from sgc_ir.types import check_value

_SEQUENCES = (str, bytes, list, tuple)
_HIDDEN_DIGITS = MAX_INT_BITS // 3  # no integer within the bound has as many decimal digits


def _guard_length(like: Any, length: int) -> None:
    (guard_text if isinstance(like, str | bytes) else guard_items)(length)


def add(a: Any, b: Any) -> Any:
    if isinstance(a, _SEQUENCES) and isinstance(b, _SEQUENCES):
        _guard_length(a, len(a) + len(b))
    return a + b


def multiply(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, _SEQUENCES) and isinstance(other, int):
            _guard_length(one, len(one) * max(other, 0))
    if isinstance(a, int) and isinstance(b, int):
        guard_bits(a.bit_length() + b.bit_length())
    return a * b


def power(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b > 0 and abs(a) > 1:
        guard_bits(a.bit_length() * b)
    return a**b


def modulo(a: Any, b: Any) -> Any:
    return format_percent(a, b) if isinstance(a, str | bytes) else a % b


def compare(fn: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`fn` behind a guard: equal-looking nested values may be exponentially large."""

    def guarded(a: Any, b: Any) -> Any:
        guard_nested(a)
        guard_nested(b)
        return fn(a, b)

    return guarded


def contains(item: Any, container: Any) -> bool:
    guard_nested(container)
    return item in container


def not_contains(item: Any, container: Any) -> bool:
    guard_nested(container)
    return item not in container


def logical_and(*values: Any) -> Any:
    return next((v for v in values[:-1] if not v), values[-1])


def logical_or(*values: Any) -> Any:
    return next((v for v in values[:-1] if v), values[-1])


def conditional(condition: Any, a: Any, b: Any) -> Any:
    return a if condition else b


def concat(*parts: str) -> str:
    guard_text(sum(len(p) for p in parts if isinstance(p, str)))
    return "".join(parts)


def to_text(value: Any) -> str:
    guard_printable(value)
    return str(value)


def to_repr(value: Any) -> str:
    guard_printable(value)
    return repr(value)


def to_ascii(value: Any) -> str:
    guard_printable(value)
    return ascii(value)


def rounded(value: Any, ndigits: Any = None) -> Any:
    if isinstance(value, int) and isinstance(ndigits, int) and ndigits < -_HIDDEN_DIGITS:
        return 0  # what Python gives, without computing a power of ten of that size
    return round(value, ndigits)


def total(values: Iterable[Any], /, start: Any = 0) -> Any:
    guard_iterable(values)
    if isinstance(start, list | tuple) and isinstance(values, list | tuple):
        guard_items(len(start) + sum(len(v) for v in values if isinstance(v, list | tuple)))
    return sum(values, start)


def zip_list(*iterables: Any, strict: bool = False) -> list[Any]:
    for iterable in iterables:
        guard_iterable(iterable)
    return list(zip(*iterables, strict=strict))


def enumerate_list(iterable: Any, start: Any = 0) -> list[Any]:
    guard_iterable(iterable)
    return list(enumerate(iterable, start))


def range_list(*bounds: Any) -> list[int]:
    values = range(*bounds)
    first, last, step = values.start, values.stop, values.step
    guard_items(max(0, -((first - last) // step) if step > 0 else -((last - first) // -step)))
    return list(values)


def sorted_list(values: Any, /, *, reverse: Any = False) -> list[Any]:
    guard_iterable(values)
    return sorted(values, reverse=reverse)


def argsort(keys: Sequence[Any], reverse: Any = False) -> list[int]:
    """Positions of `keys` in sorted order, stable as `sorted` is (also when reversed)."""
    guard_iterable(keys)
    items = list(keys)
    return sorted(range(len(items)), key=items.__getitem__, reverse=reverse)


def reversed_list(values: Any) -> list[Any]:
    guard_iterable(values)
    return list(reversed(values))


def make_list(*items: Any) -> list[Any]:
    return list(items)


def make_tuple(*items: Any) -> tuple[Any, ...]:
    return items


def make_dict(*pairs: Any) -> dict[Any, Any]:
    return {pairs[i]: pairs[i + 1] for i in range(0, len(pairs), 2)}


def list_of(values: Any = ()) -> list[Any]:
    guard_iterable(values)
    return list(values)


def tuple_of(values: Any = ()) -> tuple[Any, ...]:
    guard_iterable(values)
    return tuple(values)


def getslice(value: Any, start: Any, stop: Any, step: Any) -> Any:
    return value[start:stop:step]


def unpack(value: Any, count: int) -> list[Any]:
    """The `count` items of `value`, or what `a, b = value` raises."""
    try:
        iterator = iter(value)
    except TypeError:
        raise TypeError(f"cannot unpack non-iterable {type(value).__name__} object") from None
    items = list(islice(iterator, count + 1))
    if len(items) > count:
        raise ValueError(f"too many values to unpack (expected {count})")
    if len(items) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(items)})")
    return items


def vote(values: Any) -> Any:
    """The value that occurs most often, the first of those on ties. Raises ValueError if empty."""
    guard_iterable(values)
    kinds: list[Any] = []
    counts: list[int] = []
    places: dict[Any, int] = {}
    for value in values:
        place = _place(value, kinds, places)
        if place == len(kinds):
            kinds.append(value)
            counts.append(0)
        counts[place] += 1
    if not kinds:
        raise ValueError("vote() of no values")
    return kinds[counts.index(max(counts))]


def _place(value: Any, kinds: list[Any], places: dict[Any, int]) -> int:
    try:
        return places.setdefault(value, len(kinds))
    except TypeError:  # unhashable: lists and dicts are compared one by one
        return next((i for i, kind in enumerate(kinds) if kind == value), len(kinds))


def keep(_name: str, value: Any) -> Any:
    """`set`: the value; the executor also writes it to the stream's variables."""
    return value


def typed(value: Any, annotation: str, label: str) -> Any:
    """`typed`: the value. Raises InputError where it is not of the type (see `sgc_ir.types`)."""
    try:
        check_value(value, annotation)
    except ValueError as error:
        raise InputError(f"{label}: {error}") from None
    return value


def is_set(value: Any) -> bool:
    """`is_set`: whether there is a value on the path that was taken."""
    return value is not UNSET


def dict_of_set(*pairs: Any) -> dict[Any, Any]:
    """`dict_of_set`: keys and values alternating, without those that are not set."""
    return {pairs[i]: pairs[i + 1] for i in range(0, len(pairs), 2) if pairs[i + 1] is not UNSET}


def dict_of_pairs(pairs: Any) -> dict[Any, Any]:
    """`dict_of_pairs`: the dict of a list of keys and values."""
    return dict(pairs)


def dict_set(mapping: Any, key: Any, value: Any) -> dict[Any, Any]:
    """`dict_set`: a copy of a dict in which `key` has a value."""
    found = {**mapping, key: value}
    guard_items(len(found))
    return found


def appended(items: Any, item: Any) -> list[Any]:
    """`appended`: a list with one more item; what is no list cannot be appended to."""
    return extended(items, [item], "append")


def extended(items: Any, more: Any, how: str = "extend") -> list[Any]:
    """`extended`: a list with more items."""
    if type(items) is not list:
        raise AttributeError(f"{type(items).__name__!r} object has no attribute {how!r}")
    found = list(items)
    found.extend(more)
    guard_items(len(found))
    return found


def default(value: Any, other: Any) -> Any:
    """`default`: the value, or `other` where there is none on the path that was taken."""
    return other if value is UNSET else value


def fail(kind: str, *args: Any, cause: Any = None) -> NoReturn:
    """`fail`: raises the built-in exception `kind` with `args`, or ProgramError `kind: args`, from
    the error of which `cause` are the facts."""
    found = getattr(builtins, kind, None)
    error: Exception | None = None
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            error = found(*args)
        except TypeError:  # UnicodeDecodeError and its like take more than a message
            pass
    if error is None:
        error = ProgramError(": ".join([kind, *map(str, args)]))
    raise error from (cause.error if isinstance(cause, TakenError) else None)


def raise_again(taken: TakenError) -> NoReturn:
    """`raise_again`: raises an error that a Branch on failures has taken."""
    raise taken.error


OPERATORS: dict[str, Callable[..., Any]] = {
    "+": add,
    "-": operator.sub,
    "*": multiply,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": modulo,
    "**": power,
    "neg": operator.neg,
    "pos": operator.pos,
    "==": compare(operator.eq),
    "!=": compare(operator.ne),
    "<": compare(operator.lt),
    "<=": compare(operator.le),
    ">": compare(operator.gt),
    ">=": compare(operator.ge),
    "in": contains,
    "not in": not_contains,
    "not": operator.not_,
    "is": operator.is_,
    "is not": operator.is_not,
    "format": format_value,
}
