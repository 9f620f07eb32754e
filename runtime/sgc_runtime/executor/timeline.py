"""What one row did and when, as events of the JSON trace event format (Chrome, Perfetto)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, Protocol

from sgc_ir.params import CallResult, Usage
from sgc_runtime.executor.timeline_parts import parts_of

Event = dict[str, Any]


class EventSink(Protocol):
    """Where events go; `microseconds` turns `perf_counter` seconds into the sink's time."""

    def write(self, events: Sequence[Event]) -> None: ...

    def microseconds(self, seconds: float) -> int: ...


@dataclass(slots=True)
class Attempt:
    """One try of the backend; seconds of `perf_counter`."""

    began: float
    ended: float | None = None
    error: str = ""


@dataclass(slots=True, eq=False)
class Span:
    """A node from its dispatch to its end.

    Attributes:
        track: number of the thread that shows it.
        state: `running`, then `ok | restored | failed | cancelled`.
        facts: further arguments of its slice.
    """

    node: str
    name: str
    kind: str
    track: int
    facts: dict[str, Any]
    began: float
    ended: float | None = None
    state: str = "running"
    attempts: list[Attempt] = field(default_factory=list)
    results: Sequence[CallResult] = ()

    def end(self, state: str, **facts: Any) -> None:
        """What became of it. The first end counts, but a failure comes after whatever was."""
        if self.ended is None:
            self.ended = perf_counter()
        if self.state == "running" or state == "failed":
            self.state = state
            self.facts.update(facts)


class RowTimeline:
    """A row as a process, its streams as threads, its nodes as slices on them.

    Model calls of a stream never overlap and share its thread. Tools may, and have threads of
    their own. A sub-program is a slice on its root stream's thread, around its nodes; the whole
    row is one on the root's. All methods belong to the event-loop thread, but for `unfinished`.

    Args:
        sink: where the events go.
        process: number of the process in the file.
        row: input row index.
        program: name of the main program.
    """

    def __init__(self, sink: EventSink, process: int, row: int, program: str) -> None:
        self._sink = sink
        self._process = process
        self._program = program
        self._tracks: dict[str, int] = {}  # title -> thread
        self._programs: dict[str, str] = {"": program}  # stream -> name of its program
        self._callees: dict[str, float] = {}  # root stream of a sub-program -> last end in it
        self._lanes: dict[str, list[Span | None]] = {}  # stream -> tools that run
        self._open: dict[str, Span] = {}  # node -> span
        self._current: dict[int, Span] = {}  # thread -> the model call that runs there
        self._closed = False
        self._began = perf_counter()
        named = {"name": f"row {row}"}
        sink.write([self._about("process_name", 0, named)])
        sink.write([self._about("process_sort_index", 0, {"sort_index": row})])
        sink.write([self._border("B", self._track("main"), self._began, program)])

    def span(self, node: str) -> Span | None:
        """The span of a node that has not ended."""
        return self._open.get(node)

    # -- streams

    def stream(self, path: str, program: str) -> None:
        """A stream begins; one of a sub-program is a slice of its own."""
        self._programs[path] = program
        if path.rpartition("/")[2].startswith("c") and not self._closed:
            self._callees[path] = now = perf_counter()
            self._sink.write([self._border("B", self._track(self._title(path)), now, program)])

    def _title(self, stream: str) -> str:
        if not stream:
            return "main"
        is_root = stream.rpartition("/")[2].startswith("c")
        return f"{stream} {self._programs.get(stream, '')}".rstrip() if is_root else stream

    def _track(self, title: str) -> int:
        found = self._tracks.get(title)
        if found is None:
            found = self._tracks[title] = len(self._tracks) + 1
            order = {"sort_index": found}
            self._sink.write(
                [
                    self._about("thread_name", found, {"name": title}),
                    self._about("thread_sort_index", found, order),
                ]
            )
        return found

    # -- nodes

    def begin(self, node: str, name: str, kind: str, source: Any) -> Span:
        """A model call (kind `gen` or `select`) or a `tool` is dispatched."""
        stream = node.rpartition("/")[0]
        program = self._programs.get(stream, self._program)
        facts: dict[str, Any] = {"node": node, "name": name, "program": program}
        facts["source"] = str(source) if source else None
        span = Span(node, name, kind, 0, facts, perf_counter())
        if kind == "tool":
            span.track = self._lane(stream, span)
        else:
            span.track = self._track(self._title(stream))
            before = self._current.get(span.track)
            if before is not None and before.ended is None:
                before.ended = span.began
            self._current[span.track] = span
        self._open[node] = span
        return span

    def _lane(self, stream: str, span: Span) -> int:
        lanes = self._lanes.setdefault(stream, [])
        free = next((i for i, used in enumerate(lanes) if used is None), len(lanes))
        lanes[free : free + 1] = [span]
        number = f" {free + 1}" if free else ""
        return self._track(f"{stream} tools{number}".lstrip())

    def finish(self, span: Span, state: str) -> None:
        """A node has ended; `state` where nothing else was said of it."""
        if self._open.get(span.node) is not span:
            return
        del self._open[span.node]
        if self._current.get(span.track) is span:
            del self._current[span.track]
        stream = span.node.rpartition("/")[0]
        lanes = self._lanes.get(stream, [])
        if span in lanes:
            lanes[lanes.index(span)] = None
        span.end(state)
        self._touch(stream, span.ended or 0.0)
        if not self._closed:
            self._sink.write(self._slices(span))

    def _touch(self, stream: str, when: float) -> None:
        if not self._callees:
            return
        parts = stream.split("/")
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            if path in self._callees:
                self._callees[path] = max(self._callees[path], when)

    # -- the end

    def close(self, usage: Usage | None, error: BaseException | None) -> None:
        """The row has ended; nothing more is written."""
        for span in list(self._open.values()):
            self.finish(span, "cancelled")
        if self._closed:
            return
        self._closed = True
        for path, ended in self._callees.items():
            self._sink.write([self._border("E", self._track(self._title(path)), ended)])
        facts: dict[str, Any] = {} if usage is None else asdict(usage)
        if error is not None:
            facts["error"] = _line(error)
        self._sink.write([self._border("E", self._track("main"), perf_counter(), facts=facts)])

    def unfinished(self) -> None:
        """Write what runs, as far as it has got, and nothing after it; any thread."""
        self._closed = True
        for span in list(self._open.values()):
            span.end("unfinished")
            self._sink.write(self._slices(span))

    # -- events

    def _about(self, what: str, track: int, args: Mapping[str, Any]) -> Event:
        return {"ph": "M", "name": what, "pid": self._process, "tid": track, "args": dict(args)}

    def _border(
        self,
        phase: str,
        track: int,
        when: float,
        name: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> Event:
        event: Event = {"ph": phase, "pid": self._process, "tid": track}
        event["ts"] = self._sink.microseconds(when)
        if phase == "B":
            event |= {"name": name, "cat": "program"}
        if facts:
            event["args"] = dict(facts)
        return event

    def _slices(self, span: Span) -> list[Event]:
        """The node, then what it consists of: who reads them nests those that begin together in
        this order."""
        assert span.ended is not None
        marks = [span.kind, *([span.state] if span.state != "ok" else [])]
        if len(span.attempts) > 1:
            marks.append("retried")
        node = self._slice(span, span.name, ",".join(marks), span.began, span.ended)
        node["args"] = {**span.facts, "state": span.state, **_tokens(span)}
        if span.state in _COLORS:
            node["cname"] = _COLORS[span.state]
        parts = parts_of(span.began, span.ended, span.attempts, span.results)
        events = [node]
        for part in parts:
            event = self._slice(span, part.name, "part", part.began, part.ended)
            events.append({**event, "args": part.facts} if part.facts else event)
        return events

    def _slice(self, span: Span, name: str, category: str, began: float, ended: float) -> Event:
        first, last = self._sink.microseconds(began), self._sink.microseconds(ended)
        event: Event = {"ph": "X", "name": name, "cat": category, "ts": first, "dur": last - first}
        return {**event, "pid": self._process, "tid": span.track}


_COLORS = {"failed": "terrible", "cancelled": "bad", "restored": "grey", "unfinished": "bad"}


def _tokens(span: Span) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if len(span.attempts) > 1:
        facts["attempts"] = len(span.attempts)
    if span.results:
        usage = sum((result.usage for result in span.results), Usage())
        facts |= asdict(usage)
        facts["finish_reason"] = ",".join(result.finish_reason for result in span.results)
    return facts


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
