"""What a region begins with, as a key: rows with equal keys give equal regions.

The key holds all that the tracer sees of a row: the shape of its streams, states, forks, handles
and variables, and the values of the locals that the statements name. What cannot be compared
has no key.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from sgc.breaks.handles import RegionHandle
from sgc.lang.forks import ForkGroup
from sgc.lang.state import ProgramState
from sgc.trace.containers import is_container
from sgc.trace.snapshot import members
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.stream import Stream

LIVE = (ProgramState, ForkGroup, RegionHandle)
SCALARS = (str, int, float, bool)  # values of variables whose type is known when they are there
_EXACT = (str, int, bool, bytes, type(None))
_MAX_ITEMS = 500

Place = tuple[Any, ...]


class Undecided(Exception):
    """Something that cannot be compared between rows."""


class Same:
    """Equal to itself only, by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return type(other) is Same and other.value is self.value


class Scene:
    """What statements of a row begin with.

    Args:
        root: the stream of the body.
        slots: locals.
        names: those that the statements name; None where no key is wanted.
        open_types: values of these types are run-time values, so that only their type is in the
            key.

    Attributes:
        objects: streams, states, forks, handles, variables, lists and dicts, in an order that
            depends on the key only. containers: the lists and dicts among these.
        kinds: type of what each variable holds, by the id of its Pending; None where it is not
            there yet.
        values: where the run-time values stand: the place of their container in `objects` (-1:
            the locals), the key there, and indices of tuples.
        key: None where it cannot be decided.
    """

    def __init__(
        self,
        root: Stream,
        slots: Mapping[str, Any],
        names: Collection[str] | None,
        open_types: tuple[type, ...],
    ) -> None:
        self.objects: list[Any] = []
        self.containers: list[Any] = []
        self.kinds: dict[int, type | None] = {}
        self.values: set[Place] = set()
        self.key: Hashable = None
        self._open_types = open_types
        self._numbers: dict[int, int] = {}
        self._parts: list[Any] = []
        self._left = _MAX_ITEMS
        if names is None:
            return
        self.number(root)
        try:
            found = tuple(self._slots(slots, names))
        except Undecided:
            self.values.clear()
            return
        self.key = found, tuple(self._parts)

    def number(self, value: Any) -> int:
        """The place of a stream, state, ... in `objects`."""
        found = self._numbers.get(id(value))
        if found is None:
            found = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)
            self._parts.append(None)
            self._parts[found] = self._described(value, found)
        return found

    def has(self, value: Any) -> bool:
        """Whether it is among `objects`."""
        return id(value) in self._numbers

    def _described(self, value: Any, at: int) -> Any:
        if type(value) in (list, dict):
            return self._content(value, at)
        if isinstance(value, ProgramState):
            group = -1 if value._group is None else self.number(value._group)
            item = self._fixed(value._stream.item) if value._has_item else None
            return "state", self.number(value._stream), value._role, value._joined, item, group
        if isinstance(value, ForkGroup):
            branches = tuple([self.number(branch) for branch in value._branches])
            return "forks", self.number(value._parent), branches, value._joined
        if isinstance(value, RegionHandle):
            return "handle", Same(value.callee)
        if isinstance(value, Stream):
            variables = tuple([(n, self.number(p)) for n, p in value.variables.items()])
            inherited = tuple([n for n in value.variables if n in value.inherited])
            return "stream", tuple(value._counts), value._unnamed, variables, inherited
        assert isinstance(value, Pending), "a kind of object that no scene has"
        kind = type(value.value.value) if value.value.done else None
        kind = self.kinds[id(value)] = kind if kind in SCALARS else None
        return kind

    def _slots(self, slots: Mapping[str, Any], names: Collection[str]) -> Iterable[Any]:
        for name in sorted(slots):
            value = slots[name]
            is_read = name in names or name.startswith("$") or isinstance(value, LIVE)
            if is_read or self._leads_to_streams(value):
                yield name, self._value(value, (-1, name))

    def _content(self, value: Any, at: int) -> Any:
        self._spend(len(value))
        self.containers.append(value)
        if type(value) is dict:
            items = value.items()
            return dict, tuple([(self._fixed(k), self._value(v, (at, k))) for k, v in items])
        return list, tuple([self._value(item, (at, i)) for i, item in enumerate(value)])

    def _value(self, value: Any, place: Place) -> Any:
        kind = type(value)
        if kind in self._open_types:
            self.values.add(place)
            return kind
        if kind is tuple:
            self._spend(len(value))
            items = [self._value(item, (*place, i)) for i, item in enumerate(value)]
            return kind, tuple(items)
        if kind in (list, dict) or isinstance(value, LIVE):
            return "object", self.number(value)
        return self._fixed(value)

    def _fixed(self, value: Any) -> Any:
        """A value that is compared by content. Raises Undecided."""
        kind = type(value)
        if kind in _EXACT:
            return kind, value
        if kind is float:
            return kind, repr(value)
        if kind is tuple:
            self._spend(len(value))
            return kind, tuple([self._fixed(item) for item in value])
        if kind is ModuleType and not members(value):
            return kind, Same(value)
        raise Undecided

    def _spend(self, items: int) -> None:
        self._left -= items + 1
        if self._left < 0:
            raise Undecided

    def _leads_to_streams(self, value: Any) -> bool:
        """Whether a local that the statements do not name holds states, forks or handles."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            self._spend(len(value))
            return any(self._leads_to_streams(item) for item in value)
        if kind is dict:
            self._spend(len(value))
            items = (*value, *value.values())
            return any(self._leads_to_streams(item) for item in items)
        if isinstance(value, type | ModuleType):
            is_closed = not members(value)
        else:
            is_closed = not (isinstance(value, FunctionType | tuple) or is_container(value))
        if not is_closed:
            raise Undecided
        return isinstance(value, LIVE)
