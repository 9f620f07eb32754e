"""Follows `First`: which branches are chosen only a run knows, so what they give is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sgc_ir.analysis.conditions import Condition
from sgc_ir.analysis.frames import BROKEN, Family, Following, Frame, LoopResult
from sgc_ir.analysis.spans import Unknown, calls_of
from sgc_ir.graph import Node, iter_refs


def follow_first(follower: Following, frame: Frame, node: Node, condition: Condition) -> Any:
    """A value that waits for all calls of all that may be chosen; each of them counts in full, as
    if none was cancelled."""
    among = [ref.node for ref in iter_refs((node.attrs.get("among"), node.attrs.get("fork")))]
    found = [*_given([frame.values.get(at) for at in among])]
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
