"""Constants among the operands: which are plain data, how long they are, how they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

MAX_TEXT = 65_536  # characters of all texts of a constant that a pass makes
MAX_ITEMS = 1_000  # values in it, those in containers included
_SHOWN = 48
_SCALARS = (bool, int, float)


def is_plain(value: Any, max_text: int | None = None, max_items: int | None = None) -> bool:
    """Whether an operand is data that a graph can hold as a constant: no reference, no view, no
    UNSET; with bounds, whether it is short too."""
    text = items = 0
    stack = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        items += 1
        if kind is str or kind is bytes:
            text += len(item)
        elif kind is list or kind is tuple:
            stack.extend(item)
        elif kind is dict:
            stack.extend(item)
            stack.extend(item.values())
        elif item is not None and kind not in _SCALARS:
            return False
        elif kind is int and max_text is not None:
            text += item.bit_length() // 3
        if (max_text is not None and text > max_text) or (
            max_items is not None and items > max_items
        ):
            return False
    return True


def joined(parts: Iterable[Any]) -> list[Any]:
    """Parts of a text with neighbouring constants put together and empty ones left out."""
    found: list[Any] = []
    for part in parts:
        if type(part) is str and found and type(found[-1]) is str:
            found[-1] += part
        elif type(part) is not str or part:
            found.append(part)
    return found


def shown(value: Any) -> str:
    """A constant in one short line."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
