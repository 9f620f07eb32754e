"""Branches while compiling: a fork of constant width is a sequence of streams of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import Primitive
from sgc.trace.entries import Gathered, Written, check_gathered, may_be_unset
from sgc.trace.family import Branch, Family, RunTimeForks, entry_form, may_be_list
from sgc.trace.form import Form
from sgc.trace.generator import materialize
from sgc.trace.operand import holds_spread
from sgc.trace.refusal import refuse
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream
from sgc.trace.symbol import Symbol, is_mark
from sgc_ir.graph import Ref
from sgc_ir.ops import Op
from sgc_runtime.executor.stream import is_unnamed

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region

MODES = ("gather", "append")
__all__ = ["Branch", "Family", "Forks", "RunTimeForks", "copy", "fork", "fork_each"]


class StaticForks:
    """`forks[i]`, iteration, `len`, `forks += x` and `forks.join(mode)` of constant width."""

    _sgc_stream = True
    _sgc_fields = ("_is_joined",)

    def __init__(self, parent: Stream, node: int, branches: list[TracedState]) -> None:
        self._parent = parent
        self._region = parent.trace.region
        self._node = node
        self._branches = tuple(branches)
        self._is_joined = False

    @property
    def made_by(self) -> tuple[Region, int]:
        """The graph and the node of the fork."""
        return self._region, self._node

    @property
    def trace(self) -> Trace:
        return self._parent.trace

    def __len__(self) -> int:
        return len(self._branches)

    def __iter__(self) -> Iterator[TracedState]:
        return iter(self._branches)

    def __getitem__(self, index: Any) -> TracedState:
        if is_mark(index):
            raise refuse(
                "a branch of a fork of constant width is chosen by a run-time value; "
                "read the variables of all branches into a list and index that"
            )
        if not isinstance(index, int):
            raise refuse(f"forks[{index!r}]: branches are found by number; iterate for several")
        return self._branches[index]

    def __setitem__(self, index: Any, state: Any) -> None:
        if self[index] is not state:
            raise refuse("a branch cannot be replaced; append to it with `forks[i] += ...`")

    def __iadd__(self, x: Any) -> StaticForks:
        for branch, part in zip(self._branches, self._spread(x), strict=True):
            branch.extend(part)
        return self

    def _spread(self, x: Any) -> list[Any]:
        width = len(self)
        if holds_spread(x) or (type(x) is Symbol and may_be_list(x)):
            raise refuse(
                f"forks += a run-time value that may be a list for {width} branches; append to "
                "each of them in a loop, or annotate the argument's type"
            )
        if isinstance(x, list | tuple):
            if len(x) != width:
                raise refuse(f"forks += a list of {len(x)} for {width} branches; give one each")
            return list(x)
        if callable(x) and not isinstance(x, Primitive):
            return [self.trace.runtime.call(x, i) for i in range(width)]
        return [x] * width

    def join(self, mode: str = "gather") -> None:
        """Merge the branches into the parent."""
        check_mode(mode, self._is_joined)
        self._parent.check_open()
        if self._region is not self.trace.region:
            raise refuse("a fork from outside of the loop over run-time values is joined in a pass")
        log = self.trace.log
        log.touch(self)
        self._is_joined = True
        streams = [branch.stream_ for branch in self._branches]
        if mode == "append":
            self._parent.add(Op.JOIN, {"fork": Ref(self._node), "mode": mode})
        else:
            self._gather(streams)
        for stream in streams:
            log.touch(stream)
            stream.is_joined = True

    def _gather(self, streams: list[Stream]) -> None:
        for stream in streams:
            for name, inherited in stream.inherited.items():
                if stream.entry(name) is not inherited:
                    check_gathered(name, inherited)
        gained = [n for s in streams for n in s.variables if n not in s.inherited]
        gathered: dict[str, tuple[Any, ...]] = {}
        for name in dict.fromkeys(n for n in gained if not is_unnamed(n)):
            entries = [stream.entry(name) for stream in streams]
            if None in entries:
                lacking = streams[entries.index(None)]
                raise refuse(
                    f"variable {name!r} is not set in {lacking.label}, but in another branch; "
                    "set it in each, or read the branches one by one"
                )
            gathered[name] = tuple(entries)
        operands = {
            name: [_written(streams[0].trace, e) for e in entries]
            for name, entries in gathered.items()
        }
        attrs = {"fork": Ref(self._node), "mode": "gather", "vars": operands}
        node = self._parent.add(Op.JOIN, attrs)
        region = self._parent.region
        for name, found in gathered.items():
            entry: Any = Gathered(found, region, node)
            if any(may_be_unset(e) for e in found):
                form = Form("list", entry_form(found[0]))
                entry = Written(region, node, form, may_be_unset=True)
            self._parent.write(name, entry)


Forks = StaticForks | RunTimeForks


def _written(trace: Trace, entry: Any) -> Any:
    """What wrote a variable of a branch, for the Join of its fork."""
    if isinstance(entry, Gathered):  # by a join inside of the branch, which knows the metadata
        return trace.operand(Symbol(entry.region, entry.node))
    return writer(trace, entry)


def writer(trace: Trace, entry: Any) -> Any:
    """The operand for what wrote a variable, for a node that reads it of several branches."""
    if isinstance(entry, Gathered):
        return [writer(trace, e) for e in entry.entries]
    if hasattr(entry, "node"):
        return trace.operand(Symbol(entry.region, entry.node))
    return trace.operand(entry.value)


def check_mode(mode: Any, is_joined: bool) -> None:
    """Refuse an unknown mode and a second join."""
    if mode not in MODES:
        raise refuse(f"join({mode!r}); the modes are gather and append")
    if is_joined:
        raise refuse("these branches were joined already; a join runs once")


def fork(state: TracedState, width: Any) -> Forks:
    """`s.fork(width)`."""
    stream = state.stream_
    stream.check_forkable()
    if is_mark(width):
        return RunTimeForks(Family.of_width(stream, width))
    if not isinstance(width, int) or isinstance(width, bool) or width < 1:
        raise refuse(f"fork({width!r}); the width is a whole number, at least 1")
    return _static(stream, width, None)


def fork_each(state: TracedState, items: Any) -> Forks:
    """`s.fork_each(items)`."""
    stream = state.stream_
    stream.check_forkable()
    values = materialize(stream.trace, items)
    if type(values) is Symbol or holds_spread(values):
        return RunTimeForks(Family.of_items(stream, values))
    return _static(stream, 0, list(values))


def _static(stream: Stream, width: int, items: list[Any] | None) -> StaticForks:
    trace = stream.trace
    ordinal = stream.take("f")
    attrs: dict[str, Any] = {"ordinal": ordinal.lower(trace)}
    number = width if items is None else len(items)
    attrs["width" if number else "items"] = number or []
    node = stream.add(Op.FORK, attrs)
    branches = [_open(stream, node, i, items) for i in range(number)]
    return StaticForks(stream, node, branches)


def _open(stream: Stream, node: int, index: int, items: list[Any] | None) -> TracedState:
    trace = stream.trace
    opener = trace.node(Op.GET_FORK_ITEM, {"fork": Ref(node), "index": index})
    branch = stream.child(opener, f"branch [{index}]")
    return TracedState(branch) if items is None else TracedState(branch, items[index])


def copy(state: TracedState) -> TracedState:
    """A branch that is never merged back."""
    stream = state.stream_
    stream.check_forkable()
    ordinal = stream.take("f").lower(stream.trace)
    node = stream.add(Op.FORK, {"ordinal": ordinal, "width": 1, "copy": True})
    opener = stream.trace.node(Op.GET_FORK_ITEM, {"fork": Ref(node), "index": 0})
    return TracedState(stream.child(opener, f"the copy of {stream.label}"))
