"""A reader of the JSON trace event format, written from its description alone: what it allows, and
which slices a viewer would show."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
NEEDED = {
    "B": ("name", "ts"),
    "E": ("ts",),
    "X": ("name", "ts", "dur"),
    "i": ("name", "ts"),
    "M": ("name", "args"),
}
METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
COLORS = {"good", "bad", "terrible", "grey", "black", "white", "yellow", "olive"}


@dataclass(eq=False)
class Slice:
    """What a viewer shows; `end` is None where the trace does not have it."""

    name: str
    category: str
    start: float
    end: float | None
    args: dict[str, Any]
    parent: Slice | None = None
    children: list[Slice] = field(default_factory=list)


Trace = dict[tuple[str, str], list[Slice]]  # (process, thread) by name -> outermost slices


def load(path: Path) -> list[dict[str, Any]]:
    """The events of a file whose array may be open, behind a comma or not; a last event that is
    cut counts as not there."""
    text = path.read_text()
    decoder, events, at = json.JSONDecoder(), [], text.index("[") + 1
    while True:
        while at < len(text) and text[at] in " \n\r\t,":
            at += 1
        if at == len(text) or text[at] == "]":
            return events
        try:
            event, at = decoder.raw_decode(text, at)
        except ValueError:
            return events
        events.append(event)


def check(events: list[dict[str, Any]]) -> None:
    """Hold each event against the rules of the format."""
    for event in events:
        phase = event["ph"]
        assert phase in NEEDED, event
        assert all(name in event for name in NEEDED[phase]), event
        assert type(event["pid"]) is type(event["tid"]) is int, event
        assert all(type(event[k]) in (int, float) for k in ("ts", "dur") if k in event), event
        assert event.get("dur", 0) >= 0
        assert isinstance(event.get("args", {}), dict)
        assert event.get("cname", "good") in COLORS
        assert all(isinstance(event.get(key, ""), str) for key in ("name", "cat")), event
        if phase == "M":
            key, kind = METADATA[event["name"]]
            assert type(event["args"][key]) is kind
        if phase == "i":
            assert event["s"] in ("g", "p", "t")


def tracks(events: list[dict[str, Any]]) -> Trace:
    """The slices of each thread, nested by their times. A slice that lies partly in another one,
    or that ends without having begun, is an AssertionError."""
    check(events)
    names: dict[tuple[str, int, int], str] = {}
    for event in events:
        if event["ph"] == "M" and "name" in event["args"]:
            thread = event["tid"] if event["name"] == "thread_name" else -1
            names[event["name"], event["pid"], thread] = event["args"]["name"]
    found: Trace = {}
    for (pid, tid), own in _by_thread(events).items():
        title = names["process_name", pid, -1], names["thread_name", pid, tid]
        assert title not in found, f"two threads are called {title}"
        found[title] = _nested(own)
    return found


def walk(slices: list[Slice]) -> list[Slice]:
    """All slices, whole ones before their parts."""
    return [s for one in slices for s in (one, *walk(one.children))]


def nodes(events: list[dict[str, Any]]) -> dict[tuple[str, str], Slice]:
    """The slices that are nodes, by process and path."""
    return {
        (process, s.args["node"]): s
        for (process, _), own in tracks(events).items()
        for s in walk(own)
        if "node" in s.args
    }


def _by_thread(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    threads = defaultdict(list)
    for event in events:
        if event["ph"] in "BEX":
            threads[event["pid"], event["tid"]].append(event)
    return threads


def _nested(events: list[dict[str, Any]]) -> list[Slice]:
    slices, begun = [], []
    for event in sorted(events, key=lambda e: e["ts"]):  # stable: as they stand in the file
        one = Slice(event.get("name", ""), event.get("cat", ""), event["ts"], None, {})
        one.args = dict(event.get("args", {}))
        if event["ph"] == "E":
            assert begun, f"nothing began that ends here: {event}"
            ended = begun.pop()
            ended.end = event["ts"]
            ended.args |= one.args
            continue
        if event["ph"] == "B":
            begun.append(one)
        else:
            one.end = event["ts"] + event["dur"]
        slices.append(one)
    return _tree(slices)


def _tree(slices: list[Slice]) -> list[Slice]:
    outermost: list[Slice] = []
    stack: list[Slice] = []
    for one in slices:
        while stack and stack[-1].end is not None and stack[-1].end <= one.start:
            if stack[-1].start == one.start and one.end == one.start:
                break  # both without length
            stack.pop()
        above = stack[-1] if stack else None
        if above is not None and above.end is not None:
            assert (one.end or above.end) <= above.end, f"{one} overlaps {above}"
        one.parent = above
        (outermost if above is None else above.children).append(one)
        stack.append(one)
    return outermost
