"""How a region ends: what each container and stream holds then, in terms of the region's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import BuiltinMethodType, FunctionType, GeneratorType, MethodType
from typing import Any

from sgc.breaks.world import World, in_tuples, mapped
from sgc.trace.context import Trace
from sgc.trace.entries import Gathered, Given, Written
from sgc.trace.env import Env
from sgc.trace.forks import StaticForks
from sgc.trace.handle import TracedHandle
from sgc.trace.log import Contents
from sgc.trace.refusal import is_rewritten, refuse
from sgc.trace.snapshot import contents
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream as TracedStream
from sgc.trace.symbol import (
    MARKS,
    Maybe,
    Poison,
    Spread,
    Symbol,
    SymbolMethod,
    Whole,
    is_stream,
)
from sgc_ir.graph import Ref

_KINDS = ("g", "f", "c")
_ITERATORS = (GeneratorType, zip, enumerate, map, filter, reversed)


@dataclass
class StreamEnd:
    """What a stream holds; counters are operands."""

    stream: TracedStream
    role: str | None
    is_joined: bool
    unnamed: int
    counts: tuple[Any, ...]
    variables: dict[str, Any]


@dataclass
class Ended:
    """The state at an exit.

    Attributes:
        containers: with their contents. forks: whether each is joined.
        needed: nodes whose values are put into containers.
    """

    containers: list[tuple[Any, Any]] = field(default_factory=list)
    streams: list[StreamEnd] = field(default_factory=list)
    forks: list[tuple[StaticForks, bool]] = field(default_factory=list)
    needed: dict[int, None] = field(default_factory=dict)


class Ending:
    """Takes down the present state of a trace; refuses what only the tracer could go on with.

    Args:
        env: locals of the function. is_read: whether a local may be read by what follows.
        world: what there was before. touched: what the region has changed.
    """

    def __init__(
        self,
        trace: Trace,
        env: Env,
        is_read: Callable[[str], bool],
        world: World,
        touched: Contents,
    ) -> None:
        self._trace, self._env, self._is_read = trace, env, is_read
        self._world, self._touched = world, touched
        self._written = [value for key, (value, _) in world.before.items() if key in touched]
        self._ended = Ended()
        self._streams: dict[int, TracedStream] = {}

    def take(self, streams: Iterable[TracedStream]) -> Ended:
        """The state; `streams` are those that were there before."""
        ended = self._ended
        for container, content in contents([self._env, *self._written]).values():
            if isinstance(container, Env) and container is self._env:
                content = self._locals(content)
            elif not self._is_changed(container) and not self._holds_traced(container, content):
                continue
            self._look_at(content)
            ended.containers.append((container, content))
        for stream in (*streams, *self._streams.values()):
            if all(stream is not end.stream for end in ended.streams):
                ended.streams.append(self._stream(stream))
        return ended

    def _holds_traced(self, container: Any, content: Any) -> bool:
        """Whether a new container holds something that only the tracer knows."""
        is_new = id(container) not in self._world.before
        return is_new and mapped(content, _none_for_traced) is not None

    def _is_changed(self, container: Any) -> bool:
        return id(container) in self._touched or id(container) in self._world.swapped

    def _locals(self, content: dict[str, Any]) -> dict[str, Any]:
        """Without what could not be merged and nobody reads."""
        kept = {}
        for name, value in content.items():
            if type(value) is Poison and not self._is_read(name):
                continue
            kept[name] = value
        return kept

    def _look_at(self, content: Any) -> None:
        items = content.values() if isinstance(content, dict) else content
        for value in in_tuples(items):
            self._check(value)

    def _check(self, value: Any) -> None:
        kind = type(value)
        if kind is Symbol:
            self._need(value)
        elif kind in (Spread, Maybe, Whole):
            self._need(value.value)
        elif kind is Poison:
            raise refuse(value.why)
        elif is_stream(value):
            self._check_stream(value)
        elif not self._world.was_there(value):
            check_kept(value)

    def _need(self, symbol: Symbol) -> None:
        self._ended.needed[self._trace.ref(symbol).node] = None  # refuses one of a pass of a loop

    def _check_stream(self, value: Any) -> None:
        if type(value) is TracedState:
            self._note(value)
        elif type(value) is StaticForks:
            self._ended.forks.append((value, value._is_joined))
            self._streams.setdefault(id(value._parent), value._parent)
            for branch in value:
                self._note(branch)
        elif type(value) is TracedHandle:
            self._need_handle(value)
        else:
            check_kept(value)

    def _note(self, state: TracedState) -> None:
        self._streams.setdefault(id(state.stream_), state.stream_)
        if state.has_item:
            self._look_at([state.item])

    def _need_handle(self, value: TracedHandle) -> None:
        if value.symbol.region is not self._trace.region:
            raise refuse("a handle from a loop is kept in a variable; Python runs the loop")

    def _stream(self, stream: TracedStream) -> StreamEnd:
        if stream.unnamed is None:
            raise refuse(
                "unnamed gens whose number depends on the path are followed by code that Python "
                "runs; give them names"
            )
        counts = tuple(stream.counts[kind].lower(self._trace) for kind in _KINDS)
        for count in counts:
            if isinstance(count, Ref):
                self._ended.needed[count.node] = None
        variables = dict(stream.variables)
        for entry in variables.values():
            self._need_entry(entry)
        return StreamEnd(stream, stream.role, stream.is_joined, stream.unnamed, counts, variables)

    def _need_entry(self, entry: Any) -> None:
        if isinstance(entry, Written) and (entry.is_maybe or entry.may_be_unset):
            self._ended.needed[entry.node] = None
        elif isinstance(entry, Given):
            self._look_at(list(_inside(entry.value)))
        elif isinstance(entry, Gathered):
            for inner in entry.entries:
                self._need_entry(inner)


def check_kept(value: Any) -> None:
    """Refuse something new in a variable that only means something while it is traced."""
    kind = type(value)
    if kind is SymbolMethod:
        raise refuse("a method of a run-time value is kept in a variable; call it")
    if is_stream(value) and kind not in (TracedState, StaticForks, TracedHandle):
        raise refuse(
            f"a {kind.__name__.lower()} over run-time values is kept in a variable; Python runs "
            "the statement"
        )
    if kind is FunctionType and is_rewritten(value.__code__):
        raise refuse("a lambda is kept in a variable; Python runs the statement")
    if kind in _ITERATORS:
        raise refuse("an iterator is kept in a variable; make a list of it")
    if kind in (MethodType, BuiltinMethodType) and is_stream(value.__self__):
        raise refuse("a method of a state is kept in a variable; call it")


def _none_for_traced(value: Any) -> Any:
    return None if type(value) in MARKS or is_stream(value) else value


def _inside(value: Any) -> Iterator[Any]:
    """Plain data with all that is inside of it, without the containers themselves."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _inside(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _inside(item)
    else:
        yield value
