"""The growing prompt of one stream: chat turns rendered by the template, raw text between them.

Turns are rendered lazily. Each time a model call needs the prompt, all turns so far are rendered
and must go on where the last rendering ended; only the new part is handed to the backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sgc_runtime.executor.backend import ChatTemplate, Media, Piece, Text
from sgc_runtime.executor.escape import Escaper, escaper_for
from sgc_runtime.executor.rendering import Rendering


class PromptError(Exception):
    """The template cannot render the turns as they stand; `node` names a model call whose text it
    would change, or is None."""

    def __init__(self, reason: str, node: str | None = None) -> None:
        super().__init__(reason)
        self.node = node


class Part(NamedTuple):
    """Text or media inside a turn or between turns; `node` is the path of the model call that
    generated the text, or None."""

    data: str | Media
    node: str | None = None


class Begin(NamedTuple):
    role: str


class End(NamedTuple):
    pass


Entry = Part | Begin | End


@dataclass(slots=True)
class Turn:
    role: str
    parts: list[Part] = field(default_factory=list)
    closed: bool = False
    _escaped: tuple[Escaper, dict[str, str]] | None = None  # of a closed turn, made once

    def copy(self) -> Turn:
        return self if self.closed else Turn(self.role, list(self.parts))

    def escaped(self, escaper: Escaper, start: int = 0, stop: int | None = None) -> str:
        """Content of the parts from `start` to `stop`; text runs are escaped as one."""
        out: list[str] = []
        run: list[str] = []
        for part in self.parts[start:stop]:
            if isinstance(part.data, str):
                run.append(part.data)
                continue
            out += [escaper.escape("".join(run)), escaper.media]
            run = []
        out.append(escaper.escape("".join(run)))
        return "".join(out)

    def escaped_message(self, escaper: Escaper) -> dict[str, str]:
        """What the template sees."""
        if self._escaped is not None and self._escaped[0] is escaper:
            return self._escaped[1]
        message = {"role": self.role, "content": self.escaped(escaper)}
        if self.closed:
            self._escaped = (escaper, message)
        return message

    def message(self) -> dict[str, Any]:
        """Plain data; content is a text, or a list of typed parts when there is media."""
        if all(isinstance(part.data, str) for part in self.parts):
            return {"role": self.role, "content": "".join([str(p.data) for p in self.parts])}
        return {"role": self.role, "content": [_content_part(part.data) for part in self.parts]}


class Prompt:
    """Everything that one stream has said so far.

    Attributes:
        turns: role turns, the open one last.
        unsent: pieces that the backend does not have yet.
        log: what was added since the prompt was made or copied; `join("append")` repeats it.
    """

    __slots__ = (
        "_committed",
        "_dirty",
        "_raw",
        "_rendering",
        "_sent_parts",
        "_sent_turns",
        "_spans",
        "_texts",
        "log",
        "turns",
        "unsent",
    )

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.unsent: list[Piece] = []
        self.log: list[Entry] = []
        self._raw: list[tuple[int, Part]] = []  # parts between turns, after so many turns
        self._texts: list[str] = []  # visible text of what was handed out
        self._committed = ""  # rendered turns that were handed out, escaped
        self._spans: list[tuple[int, int, str]] = []  # generated text inside `_committed`
        self._sent_turns = 0  # turns inside `_committed`, the last one perhaps in part
        self._sent_parts = 0  # parts of that last one inside `_committed`
        self._dirty = False  # turns have changed since the last commit
        self._rendering: Rendering | None = None  # made with the first turn that is rendered

    # -- writing

    @property
    def open_turn(self) -> Turn | None:
        return self.turns[-1] if self.turns and not self.turns[-1].closed else None

    def add(self, entry: Entry) -> None:
        """Add to the end. Raises PromptError for a role inside a role."""
        if isinstance(entry, Part):
            self._add_part(entry)
        elif isinstance(entry, Begin):
            if self.open_turn is not None:
                raise PromptError(
                    f"role {entry.role} inside role {self.open_turn.role}; close that one first"
                )
            self.turns.append(Turn(entry.role))
            self._dirty = True
        else:
            if self.open_turn is None:
                raise PromptError("end of a role where none is open")
            self.turns[-1].closed = True
            self._dirty = True
        self.log.append(entry)

    def add_text(self, text: str) -> None:
        """Add ordinary text."""
        if text:
            part = Part(text)
            self._add_part(part)
            self.log.append(part)

    def _add_part(self, part: Part) -> None:
        turns = self.turns
        turn = turns[-1] if turns and not turns[-1].closed else None
        if turn is None and not self._dirty:
            self._emit_raw(part)  # nothing before it is still to be rendered
        elif turn is None:
            self._raw.append((len(self.turns), part))
        else:
            turn.parts.append(part)
            self._dirty = True

    def add_generated(self, text: str, node: str, template: ChatTemplate) -> None:
        """Note text that a model call has put behind the flushed prompt."""
        part = Part(text, node)
        turn = self.open_turn
        if turn is not None:
            turn.parts.append(part)
            self._sent_parts = len(turn.parts)
            start = len(self._committed)
            self._committed += escaper_for(template.control_tokens).escape(text)
            self._spans.append((start, len(self._committed), node))
        self._texts.append(text)
        self.log.append(part)

    def copy(self) -> Prompt:
        """An independent prompt with the same content, nothing unsent and an empty log."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        other = Prompt.__new__(Prompt)  # every branch of a fork comes by here
        other.turns = [turn.copy() for turn in self.turns] if self.turns else []
        other.unsent = []
        other.log = []
        other._raw = self._raw[:]
        other._texts = self._texts[:]
        other._committed = self._committed
        other._spans = self._spans[:]
        other._sent_turns, other._sent_parts = self._sent_turns, self._sent_parts
        other._dirty = self._dirty
        other._rendering = self._rendering.copy() if self._rendering is not None else None
        return other

    # -- reading

    @property
    def needs_template(self) -> bool:
        """Whether the text cannot be told without rendering turns."""
        return self._dirty

    @property
    def has_generated_turn(self) -> bool:
        """Whether the last turn holds generated text."""
        return bool(self.turns) and any(part.node is not None for part in self.turns[-1].parts)

    def messages(self) -> list[dict[str, Any]]:
        """Role turns as plain data, an open one last."""
        return [turn.message() for turn in self.turns]

    def sent_text(self) -> str:
        """Visible text of all that was handed out; the whole text right after `flush`."""
        if len(self._texts) > 1:
            self._texts = ["".join(self._texts)]
        return self._texts[0] if self._texts else ""

    @property
    def is_unrendered(self) -> bool:
        """Whether it has turns and none of them was rendered yet."""
        return self._dirty and not self._sent_turns

    def num_chars(self) -> int:
        """Length of its text, but for what the template puts around turns not rendered yet."""
        count = sum(map(len, self._texts))
        if self._dirty or self._raw:
            sent = max(0, self._sent_turns - 1)
            parts = [part for _, part in self._raw]
            for i, turn in enumerate(self.turns[sent:], sent):
                parts += turn.parts[self._sent_parts if i < self._sent_turns else 0 :]
            count += sum(len(part.data) for part in parts if isinstance(part.data, str))
        return count

    def text(self, template: ChatTemplate) -> str:
        """The whole text, as a model call that came now would see it.

        Raises PromptError where the template would change what a model has seen.
        """
        if not self._dirty and not self._raw:
            return self.sent_text()
        probe = self.copy()
        try:
            probe.flush(template)
        except PromptError:
            probe = self.copy()
            if not probe._close_by_suffix(template):
                raise
        return probe.sent_text()

    def flush(self, template: ChatTemplate) -> None:
        """Render what is new into `unsent`. Raises PromptError; the template's errors pass."""
        for num_turns, part in self._raw:
            self._commit(template, num_turns)
            self._emit_raw(part)
        self._raw.clear()
        self._commit(template, len(self.turns))
        self._dirty = False

    def ahead(self, template: ChatTemplate, lead: str) -> list[Piece] | None:
        """What follows what was handed out, with the text `lead` behind it; nothing is handed out
        by this. None where the template cannot tell it."""
        probe = self.copy()
        probe.add_text(lead)
        try:
            probe.flush(template)
        except Exception:  # a template raises what it likes; the call that comes is told of it
            return None
        return probe.unsent

    def check_closed(self, template: ChatTemplate) -> None:
        """Raise PromptError if the template would cut generated text of the turn just closed."""
        turn = self.turns[-1]
        generated = [i for i, part in enumerate(turn.parts) if part.node is not None]
        escaper = escaper_for(template.control_tokens)
        rendered = self._render(template, escaper, self.turns)
        if rendered.startswith(self._committed):
            return
        core = turn.escaped(escaper, generated[0], generated[-1] + 1)
        node = turn.parts[generated[0]].node
        starts = [start for start, _, path in self._spans if path == node]
        if core not in rendered[min([_common(rendered, self._committed), *starts]) :]:
            raise PromptError(_TRIMS.format(node=node), node)

    # -- rendering

    def _commit(self, template: ChatTemplate, num_turns: int) -> None:
        if num_turns == 0 or not self._dirty:
            return
        escaper = escaper_for(template.control_tokens)
        turns = self.turns[:num_turns]
        rendered = self._render(template, escaper, turns)
        if not rendered.startswith(self._committed):
            self._refuse(rendered)
        self._emit_rendered(escaper, rendered, turns)

    def _emit_rendered(self, escaper: Escaper, rendered: str, turns: Sequence[Turn]) -> None:
        new, media = rendered[len(self._committed) :], []
        if escaper.media in new:
            media = [p.data for t in turns for p in t.parts if isinstance(p.data, Media)]
            media = media[self._committed.count(escaper.media) :]
        self._emit(escaper.pieces(new, media))
        self._committed = rendered
        self._sent_turns, self._sent_parts = len(turns), len(turns[-1].parts)

    def _emit_raw(self, part: Part) -> None:
        data, unsent = part.data, self.unsent
        if not isinstance(data, str):
            self._emit([data])
            return
        last = unsent[-1] if unsent else None
        if isinstance(last, Text) and not last.control:
            unsent[-1] = Text(last.text + data)
        else:
            unsent.append(Text(data))
        self._texts.append(data)

    def _emit(self, pieces: list[Piece]) -> None:
        self.unsent += pieces
        self._texts += [p.text if isinstance(p, Text) else f"<{p.kind}>" for p in pieces]

    def _render(self, template: ChatTemplate, escaper: Escaper, turns: Sequence[Turn]) -> str:
        if self._rendering is None:
            self._rendering = Rendering()
        rendering, last = self._rendering, turns[-1]
        if last.closed:
            return rendering.closed(template, escaper, turns)
        before, message = turns[:-1], last.escaped_message(escaper)
        if last.role == "assistant" and not message["content"] and before:
            opened = rendering.opened(template, escaper, before, None)
            if opened != rendering.closed(template, escaper, before):
                return opened
        marked = _marked(escaper, message)
        rendered = rendering.opened(template, escaper, before, marked)
        return _split_at_end(escaper, rendered, last.role)[0]

    def _close_by_suffix(self, template: ChatTemplate) -> bool:
        """Close the last turn by what the template puts behind a content, for templates that
        render the last turn unlike an earlier one."""
        whole = self.turns and self._sent_turns == len(self.turns) and self.turns[-1].closed
        if self._raw or not whole:
            return False
        escaper = escaper_for(template.control_tokens)
        messages = [turn.escaped_message(escaper) for turn in self.turns]
        tail = self.turns[-1].escaped(escaper, self._sent_parts)
        rendered = template.render([*messages[:-1], _marked(escaper, messages[-1])])
        suffix = _split_at_end(escaper, rendered, self.turns[-1].role)[1]
        self._emit_rendered(escaper, self._committed + tail + suffix, self.turns)
        return True

    def _refuse(self, rendered: str) -> None:
        common = _common(rendered, self._committed)
        node = next((path for _, end, path in self._spans if end > common), None)
        if node is not None:
            raise PromptError(_TRIMS.format(node=node), node)
        raise PromptError(
            "the chat template changes an earlier turn that a model call has seen already; "
            "put all turns that depend on each other before the first call"
        )


_TRIMS = (
    "the chat template trims or changes the text that node {node} generated; "
    "end the text with a stop, or put the gen outside roles"
)


def _marked(escaper: Escaper, message: dict[str, str]) -> dict[str, str]:
    """`message` with a mark at the end of its content."""
    return {**message, "content": message["content"] + escaper.sentinel}


def _split_at_end(escaper: Escaper, rendered: str, role: str) -> tuple[str, str]:
    """Rendered text before and after the mark at the end of the last message's content."""
    before, found, after = rendered.partition(escaper.sentinel)
    if not found or escaper.sentinel in after:
        raise PromptError(
            f"the chat template does not render an open {role} turn in one place; "
            "a model call cannot stand inside it"
        )
    return before, after


def _common(a: str, b: str) -> int:
    """Length of the common prefix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a.startswith(b[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _content_part(data: str | Media) -> dict[str, Any]:
    if isinstance(data, str):
        return {"type": "text", "text": data}
    part: dict[str, Any] = {"type": data.kind, "data": data.data}
    return {**part, "num_frames": data.num_frames} if data.kind == "video" else part
