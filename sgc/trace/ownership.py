"""Which lists, dicts and objects the paths of a join share, and which have other names on one.

All paths are walked in step from the locals of the active frames. A container that stands in one
place on all paths is shared, and its content is merged in place. One that takes part in two
different places, as `x = base if p else []` makes of `base`, is aliased differently by path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import content_of, is_container
from sgc.trace.snapshot import members, reach_of_function, roots
from sgc.trace.source import is_user_file
from sgc.trace.symbol import MARKS

if TYPE_CHECKING:
    from sgc.trace.context import Trace

MISSING: Any = object()  # nothing stands there on this path
_PLAIN = (str, bytes, int, float, bool, complex, type(None), *MARKS)
ContentOf = Callable[[int, Any], Any]  # content of a container on a path, by the path's number


class Ownership:
    """Finds out of each container that a join sees whether all paths mean the same one.

    Attributes:
        shared: ids of containers that stand in one place on all paths.
        conflicts: ids of containers that take part in two different places.
    """

    def __init__(self, trace: Trace, count: int, content: ContentOf, more: Iterable[Any]) -> None:
        self._count = count
        self._content = content
        self.shared: set[int] = set()
        self.conflicts: set[int] = set()
        self._places: dict[int, tuple[int, ...]] = {}
        self._kept: list[Any] = []  # ids stay those of these objects
        todo = [(value,) * count for value in (*roots(trace), *more)]
        seen: set[tuple[int, ...]] = set()
        while todo:
            values = todo.pop()
            key = tuple(map(id, values))
            if key not in seen and any(type(v) not in _PLAIN and v is not MISSING for v in values):
                seen.add(key)
                self._kept.append(values)
                todo += self._visit(values, key)

    def _visit(self, values: tuple[Any, ...], key: tuple[int, ...]) -> list[tuple[Any, ...]]:
        first = values[0]
        if all(value is first for value in values):
            inner = _code(first)
            if inner is not None:
                return [(value,) * self._count for value in inner]
            if not is_container(first):
                return []
            self.shared.add(id(first))
        for value in values:
            if is_container(value) and self._places.setdefault(id(value), key) != key:
                self.conflicts.add(id(value))
        return self._children(values)

    def _children(self, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        parts: list[dict[Any, Any]] = []
        for path, value in enumerate(values):
            if is_container(value):
                content = self._content(path, value)
            elif isinstance(value, tuple | frozenset):
                content = list(value)
            else:
                content = {}
            parts.append(content if isinstance(content, dict) else dict(enumerate(content)))
        keys = dict.fromkeys(key for part in parts for key in part)
        return [tuple(part.get(key, MISSING) for part in parts) for key in keys]


def _code(value: Any) -> list[Any] | None:
    """What a function, class or module reaches; None where the value is none of them."""
    code = getattr(value, "__code__", None)
    if code is not None and hasattr(value, "__closure__"):
        return reach_of_function(value) if is_user_file(code.co_filename) else []
    if isinstance(value, type) or type(value).__name__ == "module":
        return members(value)
    return None


def live(value: Any) -> Any:
    """The content of a container that no path has written."""
    return content_of(value)
