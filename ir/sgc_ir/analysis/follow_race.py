"""Follows `First`: which branches are chosen only a run knows, so what they give is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.frames import BROKEN, Family, Following, Frame, LoopResult
from sgc_ir.analysis.known_calls import KnownCall, NodeKey
from sgc_ir.analysis.known_stream import KnownStream
from sgc_ir.analysis.spans import Unknown, calls_of
from sgc_ir.graph import Node, iter_refs


def follow_first(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    """A value that waits for all calls of all that may be chosen. At most none is cancelled; what
    as many as are wanted make at least is certain."""
    among = [ref.node for ref in iter_refs((node.attrs.get("among"), node.attrs.get("fork")))]
    values = [frame.values.get(at) for at in among]
    found = [*_given(values)]
    _may_lose(follower, frame.operand(node.attrs["count"]), [*_entrants(follower, values)])
    found.append(frame.operand(node.attrs.get("results")))
    known = [value for value in found if value is not BROKEN]
    waits = calls_of(follower.spans.inside(known)) | frame.waits_of(node)
    return Unknown(follower.spans.new(0, None, waits))


def _given(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, Frame):
            yield value.result
        elif isinstance(value, LoopResult):
            yield from _given(list(value.values) if isinstance(value.values, list) else [])
        elif isinstance(value, Family):
            for branch in value.branches.values():
                yield list(branch.variables.values())


def _entrants(follower: Following, values: list[Any]) -> Iterator[list[KnownCall]]:
    """The calls of each that may be chosen."""
    for value in values:
        if isinstance(value, Frame):
            yield [follower.calls[number] for number in value.calls]
        elif isinstance(value, KnownStream):
            yield [call for call in follower.calls if call.path.startswith(f"{value.path}/")]
        elif isinstance(value, list | tuple):
            yield from _entrants(follower, list(value))
        elif isinstance(value, LoopResult):
            yield from _entrants(follower, [value.values])
        elif isinstance(value, Family):
            yield from _entrants(follower, list(value.branches.values()))


def _may_lose(follower: Following, count: Any, entrants: list[list[KnownCall]]) -> None:
    """Note which calls a race may cut off: of each node all but those of the `count` branches
    that make the fewest."""
    certain = count if isinstance(count, int) else 0
    nodes: dict[NodeKey, list[list[KnownCall]]] = {}
    for entrant in entrants:
        own: dict[NodeKey, list[KnownCall]] = {}
        for call in entrant:
            own.setdefault(call.node, []).append(call)
        for key, calls in own.items():
            nodes.setdefault(key, []).append(calls)
    for branches in nodes.values():
        missing = len(entrants) - len(branches)  # branches without such a call, which may be chosen
        branches.sort(key=lambda calls: (len(calls), sum(call.tokens_low for call in calls)))
        for calls in branches[max(0, certain - missing) :]:
            for call in calls:
                follower.calls[call.number] = replace(call, may_lose=True)
