"""A stream as far as it is known before a run: what was appended, and under which conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from sgc_ir.analysis.conditions import Condition, Conditions
from sgc_ir.analysis.spans import Span, Spans

_END = "\ufdd2"  # stands where the content of an open turn ends
Message = dict[str, str]


class Renderer(Protocol):
    """Text of role turns; a chat template."""

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str: ...


class Piece(NamedTuple):
    """Something that a stream was given; `data` is a text (with marks) or a role."""

    kind: Literal["text", "begin", "end"]
    data: str
    condition: Condition


@dataclass(slots=True)
class KnownStream:
    """What a stream holds at a point of the program.

    Attributes:
        program: name of the program that it belongs to.
        path: dynamic path, `*` for an index that the run decides.
        start: pieces before it came with the fork.
        broken: what stands here cannot be computed; no call follows.
    """

    program: str
    path: str
    pieces: list[Piece] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    item: Any = None
    start: int = 0
    broken: bool = False
    _begun: int = 0  # pieces of `_beginning`
    _beginning: str = ""

    def beginning(self) -> tuple[str, list[Piece]]:
        """The text that it begins with on all paths, and the pieces behind that text."""
        while self._begun < len(self.pieces):
            kind, data, condition = self.pieces[self._begun]
            if kind != "text" or condition:
                break
            self._begun += 1
            self._beginning += data
        return self._beginning, self.pieces[self._begun :]

    def add(self, kind: Literal["text", "begin", "end"], data: str, condition: Condition) -> None:
        if data or kind == "end":
            self.pieces.append(Piece(kind, data, condition))

    def branch(self, path: str, item: Any = None) -> KnownStream:
        """A stream that goes on from here."""
        pieces, start = list(self.pieces), len(self.pieces)
        variables = dict(self.variables)
        return KnownStream(self.program, path, pieces, variables, item, start, self.broken)


class _Text:
    """Puts turns and raw text together."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._turns: list[Message] = []
        self.is_open = False
        self._raw: list[tuple[int, str]] = []

    def add(self, kind: Literal["text", "begin", "end"], data: str) -> None:
        if kind == "end":
            self.is_open = False
        elif kind == "begin":
            if not self.is_open:
                self._turns.append({"role": data, "content": ""})
            self.is_open = True
        elif self.is_open:
            self._turns[-1]["content"] += data
        else:
            self._raw.append((len(self._turns), data))

    def whole(self) -> str:
        found, shown = "", ""
        for turns, data in self._raw:
            rendered = self._rendered(turns, closed=True)
            found += rendered[len(shown) :] + data
            shown = rendered
        return found + self._rendered(len(self._turns), not self.is_open)[len(shown) :]

    def _rendered(self, count: int, closed: bool) -> str:
        if count == 0:
            return ""
        turns = self._turns[:count]
        if closed:
            return self._renderer.render(turns)
        before, last = turns[:-1], turns[-1]
        if last["role"] == "assistant" and not last["content"] and before:
            opened = self._renderer.render(before, True)
            if opened != self._renderer.render(before):
                return opened
        marked = {"role": last["role"], "content": last["content"] + _END}
        return self._renderer.render([*before, marked]).rpartition(_END)[0]


def text_of(
    stream: KnownStream,
    given: Condition,
    conditions: Conditions,
    renderer: Renderer,
    spans: Spans,
    count: Callable[[str], int],
) -> str:
    """Text of a stream for somebody who runs under `given`, with marks.

    What may or may not stand there is one span of length 0 up to the sum of all of it; what was
    appended under a condition that excludes `given` is left out.
    """
    built, maybe = _Text(renderer), _Maybe(spans, count)
    beginning, pieces = stream.beginning()  # put together once, however many calls follow
    built.add("text", beginning)
    for piece in pieces:
        if conditions.excludes(given, piece.condition):
            continue
        if not conditions.implies(given, piece.condition):
            maybe.add(piece)
            continue
        maybe.settle(built)
        built.add(piece.kind, piece.data)
    maybe.settle(built)
    return built.whole()


class _Maybe:
    """Pieces, one after the other, that may or may not stand in a stream."""

    def __init__(self, spans: Spans, count: Callable[[str], int]) -> None:
        self._spans, self._count = spans, count
        self._pieces: list[Piece] = []

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def settle(self, built: _Text) -> None:
        """Put their span, if there are any, and leave a role open or closed as they do; the text
        of roles inside is in the span, without bound."""
        if not self._pieces:
            return
        begins = [piece.data for piece in self._pieces if piece.kind == "begin"]
        roles = [piece.kind for piece in self._pieces if piece.kind != "text"]
        last_kind, span = self._pieces[-1].kind, self._span()
        built.add("text", span.mark)
        if roles and (roles[-1] == "begin") != built.is_open:
            built.add("begin" if roles[-1] == "begin" else "end", "".join(begins[-1:]))
            if last_kind == "text":
                key = ("behind the role", span)
                built.add("text", self._spans.for_pieces(key, None, span.calls).mark)

    def _span(self) -> Span:
        high: int | None = 0
        calls: frozenset[int] = frozenset()
        for piece in self._pieces:
            high = high if piece.kind == "text" else None
            for part in self._spans.parts(piece.data) if piece.kind == "text" else ():
                more = self._count(part) if isinstance(part, str) else part.high
                high = None if high is None or more is None else high + more
                calls |= frozenset() if isinstance(part, str) else part.calls
        key = tuple(self._pieces)
        self._pieces = []
        return self._spans.for_pieces(key, high, calls)
