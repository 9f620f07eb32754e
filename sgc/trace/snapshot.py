"""The state of the traced program: everything that a body can change, saved, compared, restored.

Locals of active frames; content of lists, dicts, sets and user objects that these, closure cells
and named globals reach; streams and fork families; the graphs under construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import CellType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import content_of, is_container, is_user_class, put_content
from sgc.trace.operand import walk
from sgc.trace.source import is_user_file
from sgc.trace.symbol import MARKS

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_PLAIN = (str, bytes, int, float, bool, complex, type(None))
_STREAM_FIELDS = ("role", "is_joined", "variables", "counts", "unnamed", "stored")
_BRANCH_FIELDS = ("_opener", "_version", "begin", "is_dirty")
_FAMILY_FIELDS = (
    "written", "sure", "full", "partial", "unnamed", "is_joined", "version", "branches",
)  # fmt: skip


class Snapshot:
    """The state at one moment."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._containers = contents(roots(trace))
        self.streams = [(s, _fields(s, _stream_fields(s))) for s in trace.streams]
        self._families = [(f, _fields(f, _FAMILY_FIELDS)) for f in trace.families]
        self._regions = [(r, r.mark()) for r in chain(trace)]
        self._counters = (trace.effects, trace.partials)
        self._size = trace.size
        self._facts = trace.facts.known

    def restore(self) -> None:
        """Make everything what it was."""
        trace = self._trace
        for value, content in self._containers.values():
            put_content(value, content)
        del trace.streams[len(self.streams) :], trace.families[len(self._families) :]
        for owner, fields in (*self.streams, *self._families):
            for name, value in fields.items():
                setattr(owner, name, _copied(value))
        for region, mark in self._regions:
            region.undo(mark)
        trace.size = self._size
        trace.facts.known = self._facts
        trace.effects, trace.partials = self._counters

    def changes(self) -> Iterator[tuple[Any, Any]]:
        """(container, key) of what differs now; the key is None for lists and sets."""
        for value, old in self._containers.values():
            new = content_of(value)
            if isinstance(old, dict):
                for key in (*old, *(k for k in new if k not in old)):
                    if key not in old or key not in new or not _same(old[key], new[key]):
                        yield value, key
            elif len(old) != len(new) or not all(map(_same, old, new)):
                yield value, None

    def knows(self, value: Any) -> bool:
        """Whether `value` is, or holds, a list or other container that was there already."""
        return any(id(inner) in self._containers for inner in walk(value))

    def content(self, value: Any) -> Any:
        """The content of a container at the time of the snapshot."""
        return self._containers[id(value)][1]

    def places(self, value: Any) -> int:
        """In how many places a container stood."""
        found = 0
        for _, content in self._containers.values():
            items = content.values() if isinstance(content, dict) else content
            found += sum(item is value for item in items)
        return found

    def has_made(self, trace: Trace) -> bool:
        """Whether nodes that do something were recorded since."""
        return bool(trace.effects != self._counters[0])

    @property
    def has_effects(self) -> bool:
        """Whether nodes that do something, or may fail, were recorded since."""
        return (self._trace.effects, self._trace.partials) != self._counters


def chain(trace: Trace) -> Iterator[Any]:
    """The graph under construction, and those around it."""
    region: Any = trace.region
    while region is not None:
        yield region
        region = region.parent


def _stream_fields(stream: Any) -> tuple[str, ...]:
    return _STREAM_FIELDS + (_BRANCH_FIELDS if hasattr(stream, "begin") else ())


def _fields(owner: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: _copied(getattr(owner, name)) for name in names}


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, dict | list) else value


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    return type(a) is type(b) and type(a) in (str, bytes, int, bool) and bool(a == b)


# -- what a program can reach -------------------------------------------------------------------


def roots(trace: Trace) -> list[Any]:
    """Environments of the active frames, their cells and the globals that they name."""
    found: list[Any] = []
    for frame in trace.frames:
        if frame.env is not None:
            found.append(frame.env)
        if frame.fn is not None:
            found.extend(reach_of_function(frame.fn))
    return found


def reach_of_function(fn: FunctionType) -> list[Any]:
    """Contents of the closure cells, the defaults, and the globals that the code names."""
    found: list[Any] = []
    for cell in fn.__closure__ or ():
        found.extend(_cell(cell))
    found.extend(fn.__defaults__ or ())
    found.extend((fn.__kwdefaults__ or {}).values())
    todo = [fn.__code__]
    while todo:
        code = todo.pop()
        found.extend(fn.__globals__[n] for n in code.co_names if n in fn.__globals__)
        todo.extend(c for c in code.co_consts if hasattr(c, "co_names"))
    return found


def _cell(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # not set yet
        return []


def contents(start: Iterable[Any]) -> dict[int, tuple[Any, Any]]:
    """id -> (container, copy of its content) of all mutable containers that are reached."""
    found: dict[int, tuple[Any, Any]] = {}
    seen: set[int] = set()
    todo = list(start)
    while todo:
        value = todo.pop()
        kind = type(value)
        if kind in _PLAIN or kind in MARKS or id(value) in seen:
            continue
        seen.add(id(value))
        if kind is FunctionType:
            if is_user_file(value.__code__.co_filename):
                todo.extend(reach_of_function(value))
        elif kind is tuple or kind is frozenset:
            todo.extend(value)
        elif isinstance(value, type | ModuleType):
            todo.extend(members(value))
        elif is_container(value):
            content = content_of(value)
            found[id(value)] = (value, content)
            todo.extend(content.values() if isinstance(content, dict) else content)
            todo.append(kind)
    return found


def members(owner: Any) -> list[Any]:
    """What a user's class or module holds."""
    if isinstance(owner, ModuleType):
        file = getattr(owner, "__file__", None)
        is_user = file is not None and is_user_file(file)
    else:
        is_user = is_user_class(owner)
    return list(vars(owner).values()) if is_user else []
