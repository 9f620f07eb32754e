"""Reads what `sgc run --trace` wrote: the rows of its last run, and what each did when."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_SLICES = 20_000  # model and tool calls that are kept; later rows are only counted
_NODE = ("gen", "select", "tool")
_NUMBERS = ("pid", "tid", "ts", "dur")
TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "forced_tokens", "scored_tokens")


@dataclass(slots=True)
class Slice:
    """A model or tool call; times in microseconds since 1970.

    Attributes:
        kind: `gen`, `select` or `tool`.
        facts: the arguments of its event.
        parts: name, start and duration of what it consists of.
    """

    name: str
    kind: str
    start: int
    duration: int
    facts: Mapping[str, Any]
    parts: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """One row of the run; `end` None where the trace does not have it."""

    title: str
    start: int = 0
    end: int | None = None
    error: str = ""
    tracks: dict[int, str] = field(default_factory=dict)  # thread -> title
    slices: dict[int, list[Slice]] = field(default_factory=dict)  # thread -> calls


@dataclass(slots=True)
class Trace:
    """The last run of a trace file.

    Attributes:
        runs: how many runs the file holds.
        left_out: rows beyond `MAX_SLICES` calls, which `rows` does not hold.
    """

    facts: Mapping[str, Any]
    rows: list[Row]
    runs: int
    left_out: int = 0


class TraceError(Exception):
    """The file is no trace of `sgc run`."""


def read_trace(lines: Iterable[str]) -> Trace:
    """Read the lines of a trace file, which may have been cut anywhere. Raises TraceError."""
    reader = _Reader()
    for event in _events(lines):
        reader.add(event)
    if reader.trace is None:
        raise TraceError("it holds no run of `sgc run --trace`")
    return reader.result(reader.trace)


def _events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    ahead = iter(lines)
    if next(ahead, "").strip() != "[":
        raise TraceError("it does not begin as a trace of `sgc run --trace`")
    for line in ahead:
        text = line.strip().removesuffix(",")
        if text in ("", "]"):
            continue
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            if line.endswith("\n"):
                raise TraceError("a line in it is no event") from None
            return  # the last event was cut
        if not _is_event(event):
            raise TraceError("a line in it is no event")
        yield event


def _is_event(event: Any) -> bool:
    if not isinstance(event, dict):
        return False
    facts = event.get("args") or {}
    numbers = [event.get(name, 0) for name in _NUMBERS]
    return isinstance(facts, dict) and all(
        type(n) is int for n in (*numbers, *(facts.get(name, 0) for name in TOKENS))
    )


class _Reader:
    def __init__(self) -> None:
        self.trace: Trace | None = None
        self._rows: dict[int, Row] = {}
        self._runs = 0

    def add(self, event: dict[str, Any]) -> None:
        phase, name = event.get("ph"), event.get("name")
        if phase == "i" and name == "sgc run":
            self._runs += 1
            self._rows = {}
            self.trace = Trace(event.get("args") or {}, [], self._runs)
        elif phase == "M":
            self._about(event, str(name))
        elif event.get("pid") in self._rows and "ts" in event:
            self._in_row(self._rows[event["pid"]], event, phase)

    def _about(self, event: dict[str, Any], what: str) -> None:
        title = str((event.get("args") or {}).get("name"))
        if what == "process_name" and title != "run":
            self._rows[event.get("pid", 0)] = Row(title)
        elif what == "thread_name" and event.get("pid") in self._rows:
            self._rows[event["pid"]].tracks[event.get("tid", 0)] = title

    def _in_row(self, row: Row, event: dict[str, Any], phase: Any) -> None:
        track, when = event.get("tid", 0), event["ts"]
        if phase == "B" and not row.start:
            row.start = when
        elif phase == "E":
            row.end = max(when, row.end or 0)
            row.error = str((event.get("args") or {}).get("error") or row.error)
        elif phase == "X":
            self._slice(row, event, track)

    def _slice(self, row: Row, event: dict[str, Any], track: int) -> None:
        name, start, duration = str(event.get("name")), event["ts"], event.get("dur", 0)
        kind = str(event.get("cat") or "").split(",")[0]
        known = row.slices.setdefault(track, [])
        if kind in _NODE:
            known.append(Slice(name, kind, start, duration, event.get("args") or {}))
        elif kind == "part" and known:
            known[-1].parts.append((name, start, duration))

    def result(self, trace: Trace) -> Trace:
        calls = 0
        for _, row in sorted(self._rows.items()):
            calls += sum(map(len, row.slices.values()))
            if calls > MAX_SLICES and trace.rows:
                trace.left_out = len(self._rows) - len(trace.rows)
                break
            trace.rows.append(row)
        return trace
