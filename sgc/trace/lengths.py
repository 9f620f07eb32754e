"""Lengths of run-time lists, compared without running: equal keys mean equal lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sgc.trace.symbol import Spread, Symbol
from sgc_ir.graph import Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.region import Region

_SAME_LENGTH = ("list_of", "tuple_of", "sorted", "reversed", "enumerate", "argsort")


@dataclass(frozen=True)
class Length:
    """`key` tells lengths apart: ("const", n), ("list", id), ("number", id), or ("min", keys)."""

    key: tuple[Any, ...]


def number_of(symbol: Symbol) -> Length:
    """The length that a whole number stands for."""
    return Length(_number_key(symbol.region, symbol.node))


def length_of(value: Any) -> Length:
    """The length of a symbol, a list (with or without Spreads), or anything sized."""
    if type(value) is Symbol:
        return Length(_list_key(value.region, value.node))
    if type(value) is list and len(value) == 1 and type(value[0]) is Spread:
        return length_of(value[0].value)
    if type(value) is list and any(type(v) is Spread for v in value):
        return Length(("list", id(value)))
    return Length(("const", len(value)))


def shortest(lengths: list[Length]) -> Length:
    """The length of a walk over several lists in step."""
    keys = {length.key for length in lengths}
    if len(keys) == 1:
        return lengths[0]
    flat: set[Any] = set()
    for key in keys:
        flat |= set(key[1]) if key[0] == "min" else {key}
    return Length(("min", frozenset(flat)))


def _origin(region: Region, node: int) -> tuple[Region, int]:
    """Where a captured value comes from."""
    while (outer := region.origin(node)) is not None:
        region, node = outer
    return region, node


def _number_key(region: Region, node: int) -> tuple[Any, ...]:
    region, node = _origin(region, node)
    made = region.nodes[node]
    if made.op is Op.EXPR and made.attrs["fn"] == "len":
        return _operand_key(region, made.attrs["args"][0])
    return ("number", region.number, node)


def _list_key(region: Region, node: int) -> tuple[Any, ...]:
    region, node = _origin(region, node)
    made = region.nodes[node]
    if made.op is Op.LOOP:
        return region.passes[node].key
    if made.op is Op.EXPR:
        fn, args = made.attrs["fn"], made.attrs["args"]
        if fn in _SAME_LENGTH and args:
            return _operand_key(region, args[0])
        if fn == "range" and len(args) == 1 and isinstance(args[0], Ref):
            return _number_key(region, args[0].node)
        if fn == "zip" and args and "kwargs" not in made.attrs:
            return shortest([Length(_operand_key(region, a)) for a in args]).key
    return ("list", region.number, node)


def _operand_key(region: Region, operand: Any) -> tuple[Any, ...]:
    if isinstance(operand, Ref):
        return _list_key(region, operand.node)
    return ("const", len(operand))
