"""The protocol between streams and whatever answers their calls; the executor owns it.

A backend opens `BackendStream`s. The executor appends pieces to a stream, asks it to generate or
to select, forks it and closes it. All methods are called on the event loop; `generate` and
`select` are coroutines and may be cancelled. Calls on one stream never overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sgc_ir.params import CallResult, SamplingParams

Message = Mapping[str, Any]  # {"role": str, "content": str}


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of prompt.

    `control` text came from a chat template and its control tokens count as such; in other text
    whatever looks like a control token is ordinary text. Neighbouring pieces that are not
    separated by a control token are tokenised as one text.
    """

    text: str
    control: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """An image or video piece; `data` is a path, URL or the encoded bytes."""

    kind: str  # "image" | "video"
    data: str | bytes
    num_frames: int = 0


Piece = Text | Media


class PromptView(Protocol):
    """What a call can ask about its stream; valid until the call returns."""

    def sent_text(self) -> str: ...

    def messages(self) -> Sequence[Message]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """One model call.

    Attributes:
        node: dynamic path of the node, for example `f0[2]/g1`.
        stream: dynamic path of its stream ("" is the root).
        row: input row index.
        instance: number of the program instance in this process, in the order of their starts;
            older instances may be served first.
        more_tokens: tokens that calls of the instance that are not issued yet can generate at
            most (a select counts 1), or None where that is not known. A hint.
        params: resolved parameters; for `select` their `choices` and `method`.
        seeds: one 63-bit seed a sample (length `params.n`).
        end_of_turn: inside a role: the template's end-of-turn token also ends the call.
        on_text: called on the event loop with each further piece of sample 0's text, or None.
            Text that may become a stop is held back; a piece is never taken back.
        view: what `prompt` and `messages` are put together from; None: they are empty.
    """

    node: str
    stream: str
    row: int
    params: SamplingParams
    seeds: tuple[int, ...]
    end_of_turn: bool = False
    on_text: Callable[[str], None] | None = None
    view: PromptView | None = None
    instance: int = 0
    more_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """The whole text of the stream so far; put together when asked for."""
        return self.view.sent_text() if self.view is not None else ""

    @property
    def messages(self) -> Sequence[Message]:
        """Role turns so far, an open one last; put together when asked for."""
        return self.view.messages() if self.view is not None else ()


class BackendStream(Protocol):
    """One growing prompt. Between calls it holds its KV cache softly."""

    def append(self, pieces: Sequence[Piece]) -> None:
        """Add to the end of the prompt. Raises BackendError for media it cannot take."""
        ...

    async def generate(self, call: Call) -> list[CallResult]:
        """Go on with the prompt; one result a sample; the stream continues with sample 0.

        Only the first result's usage counts the prompt. If it raises or is cancelled, the prompt
        stays as it was.
        """
        ...

    async def select(self, call: Call) -> CallResult:
        """Score `call.params.choices`, append the best; `meta["scores"]` in choice order."""
        ...

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        """Go on as if `generate(call)` or `select(call)` had just given `results`, without
        computing anything."""
        ...

    def fork(self) -> BackendStream:
        """An independent stream with the same prompt."""
        ...

    def close(self) -> None:
        """The stream is not used again."""
        ...

    def hint(self, **facts: Any) -> None:
        """Facts about what follows (readers, tokens); may do nothing, never changes a result."""
        ...


class ChatTemplate(Protocol):
    """Renders messages as the model's own chat template does."""

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The template's text for `messages`. Whatever the template raises passes through."""
        ...

    @property
    def control_tokens(self) -> Sequence[str]:
        """Texts of the control tokens that the tokenizer knows."""
        ...


class Backend(Protocol):
    """Opens streams. `name` identifies backend and model in messages and journals.

    A backend may have more, which is used where it is there: `load()` and `async ready()` load the
    model now, or wait until it is loaded; `identity()` gives what results depend on, as names and
    plain data that a journal compares; ids of results are below `vocab_size`.
    """

    name: str

    @property
    def chat_template(self) -> ChatTemplate: ...

    def open(self) -> BackendStream: ...

    def stats(self) -> Mapping[str, Any]:
        """Counters of the backend under the names of `--stats`; may be empty."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class RunDefaults:
    """Sampling values for parameters that a gen does not set, and the run's seed."""

    params: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
