"""Branches that a run puts in an order: `max(branches, key=...)`, `sorted`, `list.sort`.

Each result is a new handle of one of the branches, a GetForkItem whose index the run decides. Its
variables and counters are items of the lists of what the branches have. The old handles are moved:
touching one refuses, since it could be the stream of any new one.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from sgc.trace.counts import Count
from sgc.trace.entries import Given, Selected, Written, may_be_unset
from sgc.trace.refusal import refuse
from sgc.trace.state import TracedState
from sgc.trace.stream import Stream
from sgc.trace.symbol import Poison, Symbol
from sgc_ir.graph import Ref
from sgc_ir.ops import Op
from sgc_ir.verify_scope import constant_width

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_UNLIKE = (
    "branches of a fork of run-time width, or of a fork outside of this loop, are put in an order "
    "that a run decides, which is not compiled; sort their values"
)

_UNREAD = (
    "variable {!r} of a branch that the run chooses, in a program whose `try` takes what the run "
    "raises; read it of all branches before they are put in an order"
)


def in_order(trace: Trace, states: list[Any], order: Symbol, count: int) -> list[TracedState]:
    """The first `count` branches in the order of the positions `order`."""
    streams = [state.stream_ for state in states if type(state) is TracedState]
    numbers = [_number(trace, stream) for stream in streams]
    forks = list(dict.fromkeys(fork for fork, _ in numbers))
    if len(streams) != len(states) or None in forks:
        raise refuse(_UNLIKE)
    if len({stream.role for stream in streams}) != 1:
        raise refuse("branches with different open turns are put in an order; close the turns")
    indices = _counted_through(trace, forks, numbers)
    attrs: dict[str, Any] = {"fork": Ref(forks[0])}
    if len(forks) > 1:
        attrs["more"] = tuple(map(Ref, forks[1:]))
    chosen = []
    for at in range(count):
        position = trace.runtime.item(order, at)
        index = trace.runtime.item(indices, position)
        opens = {**attrs, "index": trace.operand(index)}
        node = trace.node(Op.GET_FORK_ITEM, opens, may_fail=False)
        chosen.append(_state(trace, states, node, position))
    for stream in streams:
        trace.log.touch(stream)
        stream.is_moved = True
    return chosen


def _number(trace: Trace, stream: Stream) -> tuple[Any, Any]:
    """Fork and index of a branch; the fork is None where they are not known here."""
    stream.check_open()
    if stream.region is not trace.region or stream.opener < 0:
        return None, None
    made = trace.region.nodes[stream.opener]
    index = made.attrs["index"]
    return (made.attrs["fork"].node, index) if isinstance(index, int) else (None, None)


def _counted_through(trace: Trace, forks: list[int], numbers: list[Any]) -> list[int]:
    """The indices of branches, counted through the branches of all forks."""
    if len(forks) == 1:
        return [index for _, index in numbers]
    begins: dict[int, int] = {}
    total = 0
    for fork in forks:
        width = constant_width(trace.region.nodes[fork])
        if width is None:
            raise refuse(_UNLIKE)
        begins[fork] = total
        total += width
    return [begins[fork] + index for fork, index in numbers]


def _state(trace: Trace, states: list[Any], opener: int, position: Any) -> TracedState:
    streams = [state.stream_ for state in states]
    first = streams[0]
    made = Stream(trace, trace.region, opener, "a branch that the run chooses")
    made.role = first.role
    made.inherited = dict(first.inherited)
    made.unnamed = first.unnamed if len({s.unnamed for s in streams}) == 1 else None
    for name, entry in first.variables.items():
        entries = [stream.variables.get(name) for stream in streams]
        if all(one is entry for one in entries):
            made.variables[name] = entry
        elif trace.takes_errors and not all(map(_was_read, entries, repeat(name))):
            made.variables[name] = Given(Poison(_UNREAD.format(name)))
        elif not any(one is None or may_be_unset(one) for one in entries):
            values = [s.value_of(name, e, "value") for s, e in zip(streams, entries, strict=True)]
            made.variables[name] = Selected(trace.runtime.item(values, position))
    for kind, count in first.counts.items():
        made.counts[kind] = count
        counts = [stream.counts[kind] for stream in streams]
        if any(one != count for one in counts):
            made.counts[kind] = Count.of(trace.runtime.item(_values(trace, counts), position))
    items = [state.item for state in states] if states[0].has_item else None
    if items is None:
        return TracedState(made)
    return TracedState(made, trace.runtime.item(items, position))


def _was_read(entry: Any, name: str) -> bool:
    """Whether the program has read a variable already, and it has not failed."""
    if not isinstance(entry, Written):
        return entry is not None
    return entry.region.known_read((name, entry.node, "value")) is not None


def _values(trace: Trace, counts: list[Count]) -> list[Any]:
    operands = [count.lower(trace) for count in counts]
    return [Symbol(trace.region, o.node) if isinstance(o, Ref) else o for o in operands]
