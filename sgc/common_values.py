"""Arguments that have the same value in every row of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def common_values(rows: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Arguments that all rows give, with the same value of the same type; {} for fewer than two
    rows. Stops reading where nothing is left in common; None stands for a row that cannot run.
    """
    found: dict[str, Any] | None = None
    count = 0
    for row in rows:
        if row is None:
            continue
        count += 1
        if found is None:
            found = dict(row)
        else:
            found = {k: v for k, v in found.items() if k in row and is_same(v, row[k])}
        if not found:
            return {}
    return found if found is not None and count > 1 else {}


def is_same(a: Any, b: Any) -> bool:
    """Whether two values are equal in type, order and sign of zero, in all their parts."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, str | bytes | bool | int):
        return bool(a == b)
    if isinstance(a, float):
        return repr(a) == repr(b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(is_same, a, b))
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=False)
        return len(a) == len(b) and all(is_same(x, y) for x, y in pairs)
    return False
