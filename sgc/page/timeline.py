"""A trace as the plain data of a page's timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc.page.paths import CallKey, NodeFinder
from sgc.page.trace import TOKENS, Row, Slice, Trace

MAX_ERROR = 500  # characters


@dataclass(slots=True)
class _Words:
    """Strings by number, each once."""

    numbers: dict[str, int] = field(default_factory=dict)

    def __call__(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


class Timeline:
    """The rows of a run as tracks of slices."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        starts = [start for row in trace.rows for start in _starts(row)]
        self._start = min(starts, default=0)
        self._words = _Words()
        self._found: dict[CallKey, int] = {}

    def data(self, nodes: NodeFinder) -> dict[str, Any]:
        """Times in microseconds from the first event; words by their number in `words`.

        A slice is `[start, duration, name, kind, state, node of the graph or -1, path, tokens,
        error or -1, part, start, duration, part ..]`; tokens, as far as they were counted, are
        prompt, cached, generated, forced and scored ones.
        """
        rows = [self._row(row, nodes) for row in self._trace.rows]
        ends = [end - self._start for row in self._trace.rows for end in _ends(row)]
        return {
            "span": max(ends, default=0),
            "runs": self._trace.runs,
            "leftOut": self._trace.left_out,
            "rows": rows,
            "words": list(self._words.numbers),
        }

    def _row(self, row: Row, nodes: NodeFinder) -> dict[str, Any]:
        start, end = min(_starts(row), default=self._start), max(_ends(row), default=self._start)
        tracks = [
            {"title": title, "slices": [self._slice(s, nodes) for s in _ordered(row, thread)]}
            for thread, title in row.tracks.items()
            if thread in row.slices or title == "main"
        ]
        return {
            "title": row.title,
            "start": start - self._start,
            "end": end - self._start,
            "error": row.error[:MAX_ERROR],
            "tracks": tracks,
        }

    def _slice(self, call: Slice, nodes: NodeFinder) -> list[Any]:
        facts, words = call.facts, self._words
        tokens = [facts.get(name, 0) for name in TOKENS] if TOKENS[0] in facts else []
        error = facts.get("error")
        found = [
            call.start - self._start,
            call.duration,
            words(call.name),
            words(call.kind),
            words(str(facts.get("state"))),
            self._node(facts, nodes),
            words(str(facts.get("node"))),
            tokens,
            -1 if error is None else words(str(error)[:MAX_ERROR]),
        ]
        for name, start, duration in call.parts:
            found += [words(name), start - self._start, duration]
        return found

    def _node(self, facts: Mapping[str, Any], nodes: NodeFinder) -> int:
        named = [str(facts.get(name) or "") for name in ("program", "node", "name", "source")]
        key = CallKey(*named)
        if key not in self._found:
            self._found[key] = next(iter(nodes.find(key)), -1)
        return self._found[key]


def _ordered(row: Row, thread: int) -> list[Slice]:
    return sorted(row.slices.get(thread, []), key=lambda call: call.start)


def _starts(row: Row) -> Iterable[int]:
    yield from [row.start] if row.start else []
    yield from (call.start for calls in row.slices.values() for call in calls)


def _ends(row: Row) -> Iterable[int]:
    yield from [row.start] if row.start else []
    yield from [row.end] if row.end is not None else []
    yield from (call.start + call.duration for calls in row.slices.values() for call in calls)
