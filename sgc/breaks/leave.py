"""Puts the end of a region into the row: values into containers, variables into streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc.breaks.bound import BoundRegion
from sgc.breaks.exits import Ended, StreamEnd
from sgc.breaks.handles import RegionHandle
from sgc.breaks.world import changed_item
from sgc.lang.body import Body
from sgc.lang.forks import ForkGroup
from sgc.lang.state import ProgramState
from sgc.trace.containers import put_content
from sgc.trace.entries import Gathered, Given, Selected, Written
from sgc.trace.forks import StaticForks
from sgc.trace.handle import TracedHandle
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream as TracedStream
from sgc.trace.symbol import WHOLE, Maybe, Spread, Symbol
from sgc_ir.graph import UNSET
from sgc_runtime.executor.cell import Cell, ListCell, as_cell
from sgc_runtime.executor.gate import Gathered as Joined
from sgc_runtime.executor.pending import Pending
from sgc_runtime.executor.region_run import RegionRun
from sgc_runtime.executor.stream import Stream


class Leaving:
    """One way out of a region that has run; `run` is None for one without nodes."""

    def __init__(self, body: Body, region: BoundRegion, run: RegionRun | None, code: int) -> None:
        self._body, self._region, self._run = body, region, run
        self._ended: Ended = region.ends[code]
        self._live = region.live
        self._ends = sorted(self._ended.streams, key=lambda end: not end.stream.is_moved)
        self._streams = {id(traced): live for traced, live in region.streams}

    @property
    def changes_streams(self) -> bool:
        """Whether a region without nodes has set variables."""
        before = self._region.code.before
        return any(
            len(end.variables) != len(before.get(id(end.stream), ()))
            or any(before[id(end.stream)].get(n) is not e for n, e in end.variables.items())
            for end in self._ended.streams
        )

    # -- on the event loop

    def put_streams(self) -> None:
        """Give the streams of the row their variables and counters."""
        # a branch that a run has put in an order is one of those from before, which come first
        for end in self._ends:
            live = self._stream(end.stream)
            if live is None:
                continue
            live._counts = [self._operand(count) for count in end.counts]
            live._unnamed = end.unnamed
            live.variables = self._variables(end, live.variables)
            live.inherited = frozenset(end.stream.inherited)

    def _stream(self, stream: TracedStream) -> Stream | None:
        """The stream of the row; None for one that was not reached."""
        found = self._streams.get(id(stream))
        if found is None and self._run is not None:
            found = self._run.stream(stream.opener)
            if found is not None:
                self._streams[id(stream)] = found
                self._body.branches([found])
        return found

    def _variables(self, end: StreamEnd, before: Mapping[str, Pending]) -> dict[str, Pending]:
        found = {}
        for name, entry in end.variables.items():
            is_kept = isinstance(entry, Selected) and name in before  # with its metadata
            pending = before[name] if is_kept else self._pending(name, entry)
            if pending is not None:
                found[name] = pending
        return found

    def _pending(self, name: str, entry: Any) -> Pending | None:
        if isinstance(entry, Given):
            return Pending.of(name, self._deep(entry.value))
        if isinstance(entry, Gathered):
            inner = [self._pending(name, one) for one in entry.entries]
            parts = [one for one in inner if one is not None]
            values = ListCell.holding([part.value for part in parts])
            return Pending(name, "", values, as_cell([part.meta for part in parts]))
        assert isinstance(entry, Written), f"an entry of type {type(entry).__name__}"
        return self._written(name, self._raw(entry.node))

    def _written(self, name: str, raw: Any) -> Pending | None:
        if type(raw) is Joined:
            variables = raw.variables.value if raw.variables.error is None else {}
            raw = variables.get(name, UNSET)
        if type(raw) is Pending:
            if raw.value.done and raw.value.value is UNSET:
                return None
            return raw if raw.name == name else Pending(name, raw.path, raw.value, raw.meta)
        if raw is UNSET or (isinstance(raw, Cell) and raw.done and raw.value is UNSET):
            return None
        return Pending.of(name, raw)

    def _raw(self, node: int) -> Any:
        if self._run is not None:
            return self._run.raw(node)
        return self._region.params[self._region.code.arguments[node]]

    def _operand(self, count: Any) -> Any:
        return count if self._run is None else self._run.operand(count)

    # -- in the body's thread

    def put_containers(self) -> None:
        """Give locals, lists, dicts and objects what they hold at the end."""
        for container, content in self._ended.containers:
            put_content(container, self._content(content))
        for end in self._ends:
            for _, live in self._live.values():
                if isinstance(live, ProgramState) and live._stream is self._stream(end.stream):
                    live._role, live._joined = end.role, end.is_joined
        for forks, is_joined in self._ended.forks:
            self._object(forks)._joined = is_joined

    def _content(self, content: Any) -> Any:
        if isinstance(content, dict):
            if WHOLE in content:
                return self._whole(content)
            made = {key: self._item(value) for key, value in content.items()}
            return {key: value for key, value in made.items() if value is not UNSET}
        items: list[Any] = []
        for value in content:
            if type(value) is Spread:
                items += self._symbol(value.value)
            else:
                items.append(self._item(value))
        return items

    def _whole(self, content: Mapping[Any, Any]) -> dict[Any, Any]:
        """A dict whose keys the run has decided."""
        return dict(self._symbol(content[WHOLE].value))

    def _item(self, value: Any) -> Any:
        return changed_item(value, self._object)

    def _symbol(self, symbol: Symbol) -> Any:
        assert self._run is not None, "a run-time value of a region without nodes"
        return self._run.value(symbol.node)

    def _object(self, value: Any) -> Any:
        found = self._live.get(id(value))
        if found is not None:
            return found[1]
        kind = type(value)
        if kind is Symbol:
            return self._symbol(value)
        if kind is Maybe:
            return self._symbol(value.value)
        if kind in (TracedState, StaticForks, TracedHandle):
            found = self._live[id(value)] = (value, self._made(value))
            return found[1]
        return value

    def _made(self, value: Any) -> Any:
        if type(value) is TracedHandle:
            assert self._run is not None, "a sub-program of a region without nodes"
            return RegionHandle(self._run.raw(value.symbol.node), value.symbol.form.target)
        if type(value) is StaticForks:
            return self._forks(value)
        assert type(value) is TracedState, "an object of the tracer of another kind"
        return self._state(value)

    def _state(self, value: TracedState) -> ProgramState:
        stream = self._stream(value.stream_)
        assert stream is not None, "a branch that was not reached is read"
        for _, live in self._live.values():
            if isinstance(live, ProgramState) and live._stream is stream:
                return live
        ends = (end for end in self._ends if end.stream is value.stream_)
        end = next(ends, None)
        made = ProgramState(self._body, stream, end.role if end is not None else None)
        made._joined = end is not None and end.is_joined
        if value.has_item:
            made._has_item = True
            stream.item = self._item(value.item)
        return made

    def _forks(self, value: StaticForks) -> ForkGroup:
        branches = [self._object(branch) for branch in value]
        return ForkGroup(self._parent(value), branches)

    def _parent(self, value: StaticForks) -> ProgramState:
        for traced, live in list(self._live.values()):
            if type(traced) is TracedState and traced.stream_ is value._parent:
                found: ProgramState = live
                return found
        state = TracedState(value._parent)
        self._live[id(state)] = (state, self._state(state))
        made: ProgramState = self._live[id(state)][1]
        return made

    def _deep(self, value: Any) -> Any:
        """Plain data with run-time values in it."""
        if type(value) is list:
            items: list[Any] = []
            for item in value:
                if type(item) is Spread:
                    items += self._symbol(item.value)
                else:
                    items.append(self._deep(item))
            return items
        if type(value) is tuple:
            return tuple([self._deep(item) for item in value])
        if type(value) is dict and WHOLE in value:
            return self._whole(value)
        if type(value) is dict:
            made = {key: self._deep(item) for key, item in value.items()}
            return {key: item for key, item in made.items() if item is not UNSET}
        return self._object(value)
