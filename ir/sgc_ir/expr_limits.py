"""Bounds on the size of expression results, so that a small artefact cannot fill the memory.

Texts and bytes: `MAX_TEXT` characters; lists, tuples and dicts: `MAX_ITEMS` entries, and as many
when nested ones are counted as often as they appear; integers: `MAX_INT_BITS` bits. Each guard
is asked before the operation and raises `ExprError`.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from sgc_ir.errors import ExprError

MAX_TEXT = 64 * 2**20  # characters
MAX_ITEMS = 1_000_000
MAX_INT_BITS = 2**20
_CONTAINERS = (list, tuple, dict)


def guard_text(length: int) -> None:
    """Refuse a text of `length` characters if that is too long."""
    if length > MAX_TEXT:
        raise ExprError(
            f"the result would have {length} characters, more than {MAX_TEXT}; "
            "shorten its inputs or compute it in a tool (sgc.call)"
        )


def guard_items(length: int) -> None:
    """Refuse a container of `length` entries if that is too many."""
    if length > MAX_ITEMS:
        raise ExprError(
            f"the result would have {length} items, more than {MAX_ITEMS}; "
            "shorten its inputs or compute it in a tool (sgc.call)"
        )


def guard_bits(bits: int) -> None:
    """Refuse an integer of `bits` bits if that is too large."""
    if bits > MAX_INT_BITS:
        raise ExprError(f"the result would have {bits} bits, more than {MAX_INT_BITS}")


def guard_iterable(value: Any) -> None:
    """Refuse to copy a sized value with too many items."""
    if isinstance(value, Sized):
        guard_items(len(value))


def guard_printable(value: Any) -> None:
    """Refuse a value whose text would be too long; shared parts count as often as they appear."""
    if isinstance(value, _CONTAINERS):
        guard_text(_total(value, _printed_length))
    elif isinstance(value, str | bytes):
        guard_text(len(value))


def printed_length(value: Any, conversion: str = "s") -> int:
    """Length of `str(value)`, `repr(value)` or `ascii(value)` (conversion s, r, a), or more."""
    if isinstance(value, str) and conversion == "s":
        return len(value)
    length = _total(value, _printed_length) if isinstance(value, _CONTAINERS) else len(repr(value))
    return 10 * length if conversion == "a" else length


def guard_nested(value: Any) -> None:
    """Refuse a container whose nested items, counted as often as they appear, are too many."""
    if isinstance(value, _CONTAINERS) and any(isinstance(v, _CONTAINERS) for v in _parts(value)):
        guard_items(_total(value, lambda _: 1))


def _printed_length(leaf: Any) -> int:
    return len(repr(leaf))


def _parts(value: Any) -> list[Any]:
    return [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)


def _total(root: Any, leaf_size: Any) -> int:
    """Sum of leaf sizes and 2 an item, each container visited once however often it is shared."""
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    stack = [root]
    while stack:
        value = stack[-1]
        if id(value) in sizes:
            stack.pop()
            continue
        parts = _parts(value)
        inner = [p for p in parts if isinstance(p, _CONTAINERS) and id(p) not in sizes]
        if inner and id(value) not in opened:
            opened.add(id(value))
            stack.extend(inner)
            continue
        stack.pop()
        sizes[id(value)] = 2 + sum(
            2 + (sizes.get(id(p), 5) if isinstance(p, _CONTAINERS) else leaf_size(p)) for p in parts
        )
    return sizes[id(root)]
