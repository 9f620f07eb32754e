"""What a body holds when a region begins, as the tracer sees it, and what it holds afterwards.

Between regions locals and containers hold states, forks and handles of the row that runs; in a
region they hold the tracer's. `World` changes one for the other, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sgc.breaks.handles import RegionHandle
from sgc.breaks.live_trace import LiveTrace
from sgc.breaks.scene import LIVE, SCALARS, Place, Scene
from sgc.lang.body import Body
from sgc.lang.forks import ForkGroup
from sgc.lang.state import ProgramState
from sgc.trace.containers import content_of, put_content
from sgc.trace.counts import Count
from sgc.trace.entries import Written
from sgc.trace.env import Env
from sgc.trace.forks import StaticForks
from sgc.trace.form import UNKNOWN, Form, form_of_constant
from sgc.trace.handle import TracedHandle
from sgc.trace.region import Region
from sgc.trace.snapshot import contents
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream as TracedStream
from sgc.trace.symbol import Symbol
from sgc_ir.graph import ROOT_STREAM, Param, Ref
from sgc_ir.ops import Op
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.region_run import family_of
from sgc_runtime.executor.stream import Stream

_KINDS = ("g", "f", "c")
_FORMS: dict[type | None, Form] = {kind: form_of_constant(kind()) for kind in SCALARS}


class World:
    """The objects of a row, and those of the tracer that stand for them while a region is traced.

    Attributes:
        params: name -> what the region's graph is given.
        sources: name -> what of the row that is: a stream, a fork, a handle, a variable, or the
            place of a value, see `Scene.values`.
        places: of symbols that stand for such values, by their ids.
        live: id of an object of the tracer -> (it, what it stands for).
        streams: the tracer's streams, with those that they stand for.
        before: containers that there were, by id, with their contents.
        variables: what the tracer's streams held, by their ids.
        swapped: those that hold objects of the tracer instead, by id.
        entered: the locals with which tracing begins.
    """

    def __init__(self, body: Body, trace: LiveTrace, region: Region, scene: Scene) -> None:
        self.params: dict[str, Any] = {}
        self.sources: dict[str, Any] = {}
        self.entered: dict[str, Any] = {}
        self.places: dict[int, Place] = {}
        self.live: dict[int, tuple[Any, Any]] = {}
        self.variables: dict[int, dict[str, Written]] = {}
        self.swapped: dict[int, Any] = {}
        self.before: dict[int, tuple[Any, Any]] = {}
        self.streams: list[tuple[TracedStream, Stream]] = []
        self._items: set[int] | None = None
        self._body, self._trace, self._region, self._scene = body, trace, region, scene
        self._traced: dict[int, tuple[Any, Any]] = {}  # by the id of the live object
        self._stream_of: dict[int, TracedStream] = {}  # by the id of the live stream
        self._pendings: dict[int, tuple[Pending, Written]] = {}

    def enter(self, env: Env, reached: Iterable[Any]) -> None:
        """Put the tracer's objects into `env` and all that it, or what else is reached, holds."""
        root = self._open(self._body.stream, ROOT_STREAM, "the stream", None)
        with self._trace.inside(self._region, root):  # to which forks of the row belong
            self._enter(env, contents(reached))

    def _enter(self, env: Env, shared: dict[int, tuple[Any, Any]]) -> None:
        self.before = contents([env])
        for container, content in self.before.values():
            changed = None if id(container) in shared else mapped(content, self._change)
            if changed is not None:
                put_content(container, changed)
                self.swapped[id(container)] = container
        self.before |= shared
        self._trace.log.shared = shared.keys()
        if self._scene.values:
            self._read_values(env)
        self.entered = dict(env.slots)
        self._read_streams()

    def leave(self) -> None:
        """Put everything back, where tracing has come to nothing."""
        for key in self.swapped:
            put_content(*self.before[key])

    def was_there(self, value: Any) -> bool:
        """Whether an object stood in a container when the region began."""
        if self._items is None:
            items = (c.values() if isinstance(c, dict) else c for _, c in self.before.values())
            self._items = {id(item) for one in items for item in in_tuples(one)}
        return id(value) in self._items

    def root(self) -> TracedStream:
        """The stream whose body runs."""
        return self._stream_of[id(self._body.stream)]

    # -- live -> traced

    def _change(self, value: Any) -> Any:
        if not isinstance(value, LIVE):
            return value
        found = self._traced.get(id(value))
        if found is None:
            made = self._made(value)
            found = self._traced.setdefault(id(value), (value, made))
            self.live[id(found[1])] = (found[1], value)
        return found[1]

    def _made(self, value: Any) -> Any:
        if isinstance(value, ProgramState):
            return self._state(value)
        if isinstance(value, ForkGroup):
            return self._forks(value)
        assert isinstance(value, RegionHandle), "one of the kinds that regions know"
        symbol = self._argument(value, Form("handle", target=value.callee))
        return TracedHandle(self._trace, symbol)

    def _state(self, value: ProgramState) -> Any:
        group = value._group
        if group is not None and id(group) not in self._traced:
            self._change(group)  # makes its branches, this one among them
        known = self._traced.get(id(value))
        if known is not None:
            return known[1]
        at = None
        if id(value._stream) not in self._stream_of:
            at = self._argument(value._stream).node
        return self._traced_state(value, at)

    def _traced_state(self, value: ProgramState, opener: int | None) -> TracedState:
        stream = self._stream_of.get(id(value._stream))
        if stream is None:
            assert opener is not None, "a stream that nothing opens"
            stream = self._open(value._stream, opener, "this branch", value)
        stream.role, stream.is_joined = value._role, value._joined
        if not value._has_item:
            return TracedState(stream)
        return TracedState(stream, value._stream.item)

    def _forks(self, group: ForkGroup) -> StaticForks:
        parent = self._change(group._parent)
        fork = self._argument(group).node
        branches = []
        for index, branch in enumerate(group._branches):
            attrs = {"fork": Ref(fork), "index": index}
            opener = self._region.add(Op.GET_FORK_ITEM, attrs, ROOT_STREAM, self._region.place)
            state = self._traced_state(branch, opener)
            self._traced[id(branch)] = (branch, state)
            self.live[id(state)] = (state, branch)
            branches.append(state)
        made = StaticForks(parent.stream_, fork, branches)
        made._region, made._is_joined = self._region, group._joined
        return made

    def _open(
        self, live: Stream, opener: int, label: str, state: ProgramState | None
    ) -> TracedStream:
        stream = TracedStream(self._trace, self._region, opener, label)
        self._stream_of[id(live)] = stream
        self.streams.append((stream, live))
        return stream

    def _argument(self, source: Any, form: Form = UNKNOWN, value: Any = None) -> Symbol:
        name = f"live{len(self.params)}"
        self.sources[name] = source
        self.params[name] = value if type(source) is tuple else given(source)
        return self._region.argument(Param(name), form)

    def _read_values(self, env: Env) -> None:
        """Make values that differ between rows run-time values."""
        scene = self._scene
        for at, holder in [(-1, env), *((scene.number(c), c) for c in scene.containers)]:
            content = content_of(holder)
            keys = content if isinstance(content, dict) else range(len(content))
            made = {key: self._opened(content[key], (at, key)) for key in keys}
            if any(made[key] is not content[key] for key in keys):
                put_content(holder, made if isinstance(content, dict) else list(made.values()))
                self.swapped[id(holder)] = holder

    def _opened(self, value: Any, place: Place) -> Any:
        if place in self._scene.values:
            symbol = self._argument(place, _FORMS[type(value)], value)
            self.live[id(symbol)] = (symbol, value)
            self.places[id(symbol)] = place
            return symbol
        if type(value) is not tuple:
            return value
        items = [self._opened(item, (*place, i)) for i, item in enumerate(value)]
        return tuple(items) if any(map(_differs, items, value)) else value

    def _read_streams(self) -> None:
        for stream, live in self.streams:
            counts = zip(_KINDS, live._counts, strict=True)
            stream.counts = {kind: Count.of(number) for kind, number in counts}
            stream.unnamed = live._unnamed
            for name, pending in live.variables.items():
                stream.variables[name] = self._entry(pending)
            known = self.variables[id(stream)] = dict(stream.variables)
            stream.inherited = {n: known[n] for n in live.inherited if n in known}

    def _entry(self, pending: Pending) -> Written:
        found = self._pendings.get(id(pending))
        if found is None:
            form = _FORMS.get(self._kind(pending), UNKNOWN)
            symbol = self._argument(pending, form)
            self._region.writers.add(symbol.node)
            entry = Written(self._region, symbol.node, form)
            found = self._pendings[id(pending)] = (pending, entry)
        return found[1]

    def _kind(self, pending: Pending) -> type | None:
        """The type of a variable's value, as the key of the region has it."""
        if self._scene.has(pending):
            return self._scene.kinds[id(pending)]
        return type(pending.value.value) if pending.value.done else None


def given(source: Any) -> Any:
    """What a region's graph is given for a stream, fork, handle or variable of the row."""
    if isinstance(source, ForkGroup):
        return family_of([branch._stream for branch in source._branches])
    return source.handle if isinstance(source, RegionHandle) else source


def mapped(content: Any, change: Callable[[Any], Any]) -> Any:
    """A container's content with `change` done to each item, in tuples too; None for no change."""
    if isinstance(content, dict):
        made = {key: changed_item(value, change) for key, value in content.items()}
        return made if any(made[k] is not v for k, v in content.items()) else None
    items = [changed_item(value, change) for value in content]
    return items if any(map(_differs, items, content)) else None


def _differs(a: Any, b: Any) -> bool:
    return a is not b


def changed_item(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` changed; a tuple with its items changed, itself where none differs."""
    if type(value) is not tuple and not (isinstance(value, tuple) and hasattr(value, "_fields")):
        return change(value)
    items = [changed_item(item, change) for item in value]
    if not any(map(_differs, items, value)):
        return value
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def in_tuples(values: Iterable[Any]) -> Iterable[Any]:
    """The values, and those inside of tuples among them."""
    for value in values:
        if isinstance(value, tuple):
            yield from in_tuples(value)
        else:
            yield value
