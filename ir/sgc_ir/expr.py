"""The closed table of functions that an `Expr` node may apply; nothing outside it ever runs.

Every function does what Python does with the same operands and raises what Python raises. Names:
operators as written (`neg`, `pos` for the unary ones; `if` takes condition, a, b; `and`, `or` take
all operands evaluated), built-ins by name, methods with a leading dot and the receiver first, and
a few of our own:

    text(x)        str(x) as it is appended to a stream     concat(*s)     parts of an f-string
    list(*items)   display; `list_of(x)` is list(x)         tuple(*items)  `tuple_of(x)` is tuple(x)
    dict(k, v ..)  keys and values alternating              getitem(x, i), getslice(x, i, j, k)
    unpack(x, n)   list of n, or Python's ValueError        argsort(keys, reverse=False)
    vote(values)   majority, first on ties                  str.format(template, args, kwargs)
    set(name, x)   x; the executor stores it in the stream's variables
    is_set(x)      whether x has a value                    default(x, d)  x, or d where it has none
    dict_of_set(k, v ..)    the dict of those keys whose values are set
    dict_of_pairs(l)        the dict of a list of keys and values
    dict_set(d, k, v)       a copy of d in which key k has the value v
    appended(l, x), extended(l, xs)     a list with one more item, or with more of them
    typed(x, type, label)   x, or InputError "label: ..." where it is not of the type
    fail(type, *args)   raises the built-in exception `type`, for other types ProgramError;
                   with cause=e from the error whose facts a Variable field="error" gave
    raise_again(e) raises the error whose facts a Variable field="error" gave

`zip`, `enumerate`, `range` and `reversed` give lists; `.keys`, `.values`, `.items` Python's views.
Results are bounded by `sgc_ir.expr_limits`; beyond it `ExprError` is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgc_ir import expr_ops as ops
from sgc_ir.errors import ExprError
from sgc_ir.expr_format import format_template
from sgc_ir.expr_methods import METHODS


@dataclass(frozen=True, slots=True)
class Function:
    """A row of the table.

    Attributes:
        call: takes the operands.
        low, high: number of positional operands; `high` None means any number.
        keywords: names that may be given by keyword; None means any.
        total: never raises whatever the operands are (so it may be computed early or not at all).
    """

    call: Callable[..., Any]
    low: int
    high: int | None
    keywords: frozenset[str] | None = frozenset()
    total: bool = False


def _row(
    call: Callable[..., Any], low: int, high: int | None, *keywords: str, total: bool = False
) -> Function:
    return Function(call, low, high, frozenset(keywords), total)


def _str_format(template: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    if not isinstance(template, str):
        raise AttributeError(f"{type(template).__name__!r} object has no attribute 'format'")
    return format_template(template, *args, **kwargs)


_UNARY = ("neg", "pos", "not")
_TOTAL = ("not", "is", "is not")

FUNCTIONS: dict[str, Function] = {
    **{
        name: _row(call, *((1, 1) if name in _UNARY else (2, 2)), total=name in _TOTAL)
        for name, call in ops.OPERATORS.items()
        if name != "format"
    },
    "and": _row(ops.logical_and, 2, None, total=True),
    "or": _row(ops.logical_or, 2, None, total=True),
    "if": _row(ops.conditional, 3, 3, total=True),
    "text": _row(ops.to_text, 1, 1),
    "concat": _row(ops.concat, 0, None),
    "str": _row(ops.to_text, 1, 1),
    "repr": _row(ops.to_repr, 1, 1),
    "ascii": _row(ops.to_ascii, 1, 1),
    "format": _row(ops.OPERATORS["format"], 1, 2),
    "str.format": _row(_str_format, 3, 3),
    "len": _row(len, 1, 1),
    "int": _row(int, 1, 1),
    "float": _row(float, 1, 1),
    "bool": _row(bool, 1, 1, total=True),
    "round": _row(ops.rounded, 1, 2, "ndigits"),
    "abs": _row(abs, 1, 1),
    "min": _row(min, 1, None, "default"),
    "max": _row(max, 1, None, "default"),
    "sum": _row(ops.total, 1, 2, "start"),
    "zip": _row(ops.zip_list, 0, None, "strict"),
    "enumerate": _row(ops.enumerate_list, 1, 2, "start"),
    "range": _row(ops.range_list, 1, 3),
    "sorted": _row(ops.sorted_list, 1, 1, "reverse"),
    "argsort": _row(ops.argsort, 1, 1, "reverse"),
    "reversed": _row(ops.reversed_list, 1, 1),
    "any": _row(any, 1, 1),
    "all": _row(all, 1, 1),
    "list": _row(ops.make_list, 0, None, total=True),
    "tuple": _row(ops.make_tuple, 0, None, total=True),
    "dict": _row(ops.make_dict, 0, None),
    "list_of": _row(ops.list_of, 0, 1),
    "tuple_of": _row(ops.tuple_of, 0, 1),
    "getitem": _row(lambda value, index: value[index], 2, 2),
    "getslice": _row(ops.getslice, 4, 4),
    "unpack": _row(ops.unpack, 2, 2),
    "vote": _row(ops.vote, 1, 1),
    "set": _row(ops.keep, 2, 2),
    "typed": _row(ops.typed, 3, 3),
    "is_set": _row(ops.is_set, 1, 1, total=True),
    "default": _row(ops.default, 2, 2, total=True),
    "dict_of_pairs": _row(ops.dict_of_pairs, 1, 1),
    "dict_set": _row(ops.dict_set, 3, 3),
    "appended": _row(ops.appended, 2, 2),
    "extended": _row(ops.extended, 2, 2),
    "dict_of_set": _row(ops.dict_of_set, 0, None),
    "fail": _row(ops.fail, 1, None, "cause"),
    "raise_again": _row(ops.raise_again, 1, 1),
    **{
        name: Function(
            method.call,
            method.low + 1,
            None if method.high is None else method.high + 1,
            method.keywords,
        )
        for name, method in METHODS.items()
    },
}


def check(fn: str, nargs: int, kwnames: Sequence[str] = ()) -> str | None:
    """Why `fn` with so many positional operands and these keywords is refused, or None."""
    row = FUNCTIONS.get(fn)
    if row is None:
        return f"{fn!r} is not among the functions that a graph can hold"
    if nargs < row.low or (row.high is not None and nargs > row.high):
        shift = 1 if fn.startswith(".") else 0
        return f"{fn} takes {_count(row, shift)}, {nargs - shift} given"
    if fn in ("dict", "dict_of_set") and nargs % 2:
        return "dict takes keys and values alternating, the last value is missing"
    if row.keywords is not None:
        for name in kwnames:
            if name not in row.keywords:
                return f"{fn} takes no keyword {name!r} here"
    return None


def _count(row: Function, shift: int) -> str:
    low, high = row.low - shift, None if row.high is None else row.high - shift
    if high is None:
        return f"at least {low} operands"
    span = f"{low}" if low == high else f"{low} to {high}"
    return f"{span} operand{'' if high == 1 else 's'}"


def evaluate(fn: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    """Apply `fn`. Raises what Python raises, or ExprError for an unknown function, wrong
    operands, or a result beyond the bounds."""
    reason = check(fn, len(args), tuple(kwargs or ()))
    if reason is not None:
        raise ExprError(reason)
    return FUNCTIONS[fn].call(*args, **(kwargs or {}))
