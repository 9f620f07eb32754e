"""Regions kept between rows: traced once, then applied to every row that begins with the same.

A region is used again only where all that its tracing has looked at is the same: the statements
and how they are called (`Site`), the row (`Scene.key`), and the globals and closures that the
statements lead to (`reach`). What holds objects of one row only is not kept.
"""

from __future__ import annotations

import ast
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sgc.breaks.bound import BoundRegion, RegionCode
from sgc.breaks.exits import Ended, StreamEnd
from sgc.breaks.names import compares_identity
from sgc.breaks.pieces import Statement
from sgc.breaks.scene import Place, Scene
from sgc.breaks.world import World, given
from sgc.lang.reach import Reach, unchanged
from sgc.trace.entries import Gathered, Given, Written
from sgc.trace.env import Env
from sgc.trace.forks import StaticForks
from sgc.trace.handle import TracedHandle
from sgc.trace.state import TracedState
from sgc.trace.symbol import WHOLE, Maybe, Spread, Symbol, Whole

_MAX_KEPT = 128  # regions of a site
_MAX_TRIES = 100  # regions that a site keeps in vain before it gives up
_ATOMS = (str, int, float, bool, bytes, complex, type(None))
_MARKS = (Symbol, Maybe, Spread, Whole)
_MAX_WORLDS = 8  # of globals for one key
_OPEN_TYPES: tuple[tuple[type, ...], ...] = ((str, int, float, bool), (str,))
_KEPT: Any = object()  # a local that is what it was


class _OneRow(Exception):
    """Something that belongs to one row."""


class KeptRegion:
    """A region without its row. Raises `_OneRow` for one that cannot be taken from it."""

    def __init__(
        self, code: RegionCode, ends: Mapping[int, Ended], world: World, env: Env, scene: Scene
    ) -> None:
        self.code = code
        self._world, self._env = world, env  # while it is made
        self._sources = [(name, self._source(scene, s)) for name, s in world.sources.items()]
        self._live = [(made, self._place(scene, made, live)) for made, live in world.live.values()]
        self._streams = [(made, scene.number(live)) for made, live in world.streams]
        self._rows = [(c, scene.number(c)) for c in scene.containers]
        self._scene = scene
        self._entered = frozenset(world.entered)
        self._ends = {code: self._ended(ended) for code, ended in ends.items()}
        del self._world, self._env, self._contents, self._new, self._scene

    # -- to one row

    def bind(self, scene: Scene, env: Env) -> BoundRegion:
        """The region for another row with the same key."""
        objects = scene.objects
        params = {name: find(objects, env) for name, find in self._sources}
        live = {id(made): (made, find(objects, env)) for made, find in self._live}
        live |= {id(made): (made, objects[at]) for made, at in self._rows}
        ends = {code: self._bound(ended, env, live) for code, ended in self._ends.items()}
        streams = [(made, objects[at]) for made, at in self._streams]
        return BoundRegion(self.code, ends, params, live, streams)

    def _bound(self, ended: Ended, env: Env, live: dict[int, tuple[Any, Any]]) -> Ended:
        (_, content), *new = ended.containers
        for made, _ in new:
            live.setdefault(id(made), (made, type(made)()))
        fresh = [(live[id(made)][1], inside) for made, inside in new]
        return replace(ended, containers=[(env, self._locals(content, env)), *fresh])

    def _locals(self, content: Mapping[str, Any], env: Env) -> dict[str, Any]:
        found = {n: v for n, v in env.slots.items() if n in content or n not in self._entered}
        found.update((n, v) for n, v in content.items() if v is not _KEPT)
        return found

    # -- from the first row

    def _source(self, scene: Scene, source: Any) -> Callable[[Sequence[Any], Env], Any]:
        if type(source) is tuple:
            return lambda objects, env: _at(source, objects, env)
        if not scene.has(source):
            raise _OneRow
        at = scene.number(source)
        return lambda objects, env: given(objects[at])

    def _place(self, scene: Scene, made: Any, live: Any) -> Callable[[Sequence[Any], Env], Any]:
        if type(made) is Symbol:
            return self._source(scene, self._world.places[id(made)])
        if not scene.has(live):
            raise _OneRow
        at = scene.number(live)
        return lambda objects, env: objects[at]

    def _ended(self, ended: Ended) -> Ended:
        self._contents = {id(at): content for at, content in ended.containers}
        self._new: dict[int, tuple[Any, Any]] = {}
        own = self._contents[id(self._env)]
        for container, _ in ended.containers:
            if container is not self._env:
                self._container(container)
        content = {name: self._local(name, value) for name, value in own.items()}
        for forks, _ in ended.forks:
            self._check(forks)
        streams = [self._stream(end) for end in ended.streams]
        containers = [(None, content), *self._new.values()]
        return replace(ended, containers=containers, streams=streams)

    def _local(self, name: str, value: Any) -> Any:
        if name in self._world.entered and self._world.entered[name] is value:
            return _KEPT
        self._check(value)
        return value

    def _check(self, value: Any) -> None:
        kind = type(value)
        if kind in _ATOMS or kind in _MARKS or kind is TracedHandle:
            return
        if kind is tuple:
            for item in value:
                self._check(item)
        elif kind is TracedState:
            if value.has_item and id(value) not in self._world.live:
                self._check(value.item)
        elif kind is StaticForks:
            for branch in value:
                self._check(branch)
        elif kind in (list, dict) and self._scene.has(value):
            return
        elif kind in (list, dict):
            self._container(value)
        else:
            raise _OneRow

    def _container(self, value: Any) -> None:
        """A list or dict that is changed, or that each row gets anew."""
        if id(value) in self._new:
            return
        is_known = id(value) not in self._world.before or self._scene.has(value)
        if type(value) not in (list, dict) or not is_known:
            raise _OneRow
        content = self._contents.get(id(value), value).copy()
        self._new[id(value)] = (value, content)
        for item in content.values() if type(content) is dict else content:
            self._check(item)
        for key in content if type(content) is dict else ():
            if key is not WHOLE:
                self._check(key)

    def _stream(self, end: StreamEnd) -> StreamEnd:
        variables = {name: self._entry(entry) for name, entry in end.variables.items()}
        return replace(end, variables=variables)

    def _entry(self, entry: Any) -> Any:
        if isinstance(entry, Written):
            return entry
        if type(entry) is Gathered:
            inner = tuple([self._entry(one) for one in entry.entries])
            return Gathered(inner, entry.region, entry.node)
        if type(entry) is Given:
            return Given(self._data(entry.value))
        raise _OneRow

    def _data(self, value: Any) -> Any:
        """A copy of plain data with marks in it."""
        kind = type(value)
        if kind in _ATOMS or kind in _MARKS or kind is TracedHandle:
            return value
        if kind in (list, tuple):
            return kind([self._data(item) for item in value])
        if kind is dict:
            return {key: self._data(item) for key, item in value.items()}
        raise _OneRow


def _at(place: Place, objects: Sequence[Any], env: Env) -> Any:
    """The value at a place of a row."""
    number, key, *indices = place
    found = env.slots[key] if number < 0 else objects[number][key]
    for index in indices:
        found = found[index]
    return found


class Site:
    """Statements of a program that are run as a region, as they are called.

    Attributes:
        names: the names and attributes in the statements.
        open_types: types of values that are run-time values there, until that is refused.
    """

    def __init__(self, names: frozenset[str], is_open: bool, is_kept: bool) -> None:
        self.names = names
        self._left = list(_OPEN_TYPES) if is_open else []
        self._kept: OrderedDict[Any, list[tuple[Reach, KeptRegion]]] = OrderedDict()
        self._in_vain = 0 if is_kept else _MAX_TRIES
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether it is worth while to look for regions."""
        return self._in_vain < _MAX_TRIES

    @property
    def open_types(self) -> tuple[type, ...]:
        left = self._left
        return left[0] if left else ()

    def refuse(self, open_types: tuple[type, ...]) -> None:
        """Values of fewer types are run-time values from now on."""
        with self._lock:
            if self.open_types == open_types:
                self._left = self._left[1:]

    def find(self, scene: Scene, now: Reach) -> KeptRegion | None:
        """The region for what a row begins with."""
        with self._lock:
            for before, kept in self._kept.get(scene.key, ()):
                if unchanged(before, now):
                    self._kept.move_to_end(scene.key)
                    self._in_vain = 0
                    return kept
        return None

    def keep(self, scene: Scene, now: Reach, make: Callable[[], KeptRegion]) -> None:
        """Keep the region of a row, if it can be taken from it."""
        try:
            kept = make()
        except _OneRow:
            kept = None
        with self._lock:
            self._in_vain += 1
            if kept is not None:
                self._kept[scene.key] = [(now, kept), *self._kept.pop(scene.key, ())][:_MAX_WORLDS]
                if len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)


class Sites:
    """The sites of a program; any thread."""

    def __init__(self) -> None:
        self._sites: dict[tuple[Any, ...], Site] = {}

    def at(self, statements: Sequence[Statement], *called: Any) -> Site:
        """The site of statements; `called` tells how their function is called."""
        key = (*map(id, statements), *called)  # they live as long as the program
        found = self._sites.get(key)
        if found is None:
            names = frozenset(name for s in statements for name in s.names)
            # the defaults of a local function are values
            is_open = not any(isinstance(s.node, ast.FunctionDef) for s in statements)
            is_kept = not any(compares_identity(s.node) for s in statements)
            found = self._sites.setdefault(key, Site(names, is_open, is_kept))
        return found
