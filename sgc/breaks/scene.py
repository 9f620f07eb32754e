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
    """Args:
        root: the stream of the body. slots: locals. names: those that the statements
            name; None where no key is wanted.
        texts: strings among these are run-time values, so that only their type is in the key.

    Attributes:
        objects: streams, states, forks, handles and variables in an order that depends on the key
            only. kinds: type of what each variable holds, by the id of its Pending; None where it
            is not there yet. texts: names of locals that are run-time values.
        key: None where it cannot be decided.
    """

    def __init__(
        self, root: Stream, slots: Mapping[str, Any], names: Collection[str] | None, texts: bool
    ) -> None:
        self.objects: list[Any] = []
        self.kinds: dict[int, type | None] = {}
        self.texts: list[str] = []
        self.key: Hashable = None
        self._numbers: dict[int, int] = {}
        self._parts: list[Any] = []
        self._seen: dict[int, int] = {}  # containers, in order
        self._left = _MAX_ITEMS
        if names is None:
            return
        self.number(root)
        try:
            found = tuple(self._slots(slots, names, texts))
        except Undecided:
            self.texts.clear()
            return
        self.key = found, tuple(self._parts)

    def number(self, value: Any) -> int:
        """The place of a stream, state, ... in `objects`."""
        found = self._numbers.get(id(value))
        if found is None:
            found = self._numbers[id(value)] = len(self.objects)
            self.objects.append(value)
            self._parts.append(None)
            self._parts[found] = self._described(value)
        return found

    def has(self, value: Any) -> bool:
        """Whether it is among `objects`."""
        return id(value) in self._numbers

    # -- streams and what holds them

    def _described(self, value: Any) -> Any:
        if isinstance(value, ProgramState):
            group = -1 if value._group is None else self.number(value._group)
            item = self._plain(value._stream.item) if value._has_item else None
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

    # -- locals

    def _slots(
        self, slots: Mapping[str, Any], names: Collection[str], texts: bool
    ) -> Iterable[Any]:
        for name in sorted(slots):
            value = slots[name]
            if isinstance(value, LIVE):
                yield name, self.number(value)
            elif name not in names and not name.startswith("$"):
                self._check_unread(value)
            elif texts and type(value) is str:
                self.texts.append(name)
                yield name, str
            else:
                yield name, self._plain(value)

    def _plain(self, value: Any) -> Any:
        """A value that is compared by content. Raises Undecided."""
        kind = type(value)
        if kind in _EXACT:
            return kind, value
        if kind is float:
            return kind, repr(value)
        if kind is ModuleType and not members(value):
            return kind, Same(value)
        if kind not in (list, tuple, dict):
            raise Undecided
        return kind, self._items(value)

    def _items(self, value: Any) -> Any:
        if id(value) in self._seen:
            return self._seen[id(value)]  # the same object once more
        self._seen[id(value)] = len(self._seen)
        self._spend(len(value))
        if type(value) is dict:
            return tuple([(self._plain(k), self._plain(v)) for k, v in value.items()])
        return tuple([self._plain(item) for item in value])

    def _spend(self, items: int) -> None:
        self._left -= items + 1
        if self._left < 0:
            raise Undecided

    def _check_unread(self, value: Any) -> None:
        """A local that the statements do not name must not lead to streams."""
        kind = type(value)
        if kind in (list, tuple, set, frozenset):
            self._spend(len(value))
            for item in value:
                self._check_unread(item)
        elif kind is dict:
            self._spend(len(value))
            for key, item in value.items():
                self._check_unread(key)
                self._check_unread(item)
        elif isinstance(value, type | ModuleType):
            if members(value):
                raise Undecided
        elif isinstance(value, (*LIVE, FunctionType, tuple)) or is_container(value):
            raise Undecided
