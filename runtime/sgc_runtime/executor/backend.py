"""The protocol between streams and whatever answers their calls; the executor owns it.

A backend opens `BackendStream`s. The executor appends pieces to a stream, asks it to generate or
to select, forks it and closes it. All methods are called on the event loop; `generate` and
`select` are coroutines and may be cancelled. Calls on one stream never overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

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


class Beginning(NamedTuple):
    """A beginning of a call's prompt that other calls read too. A hint.

    Attributes:
        chars: its length in characters of the prompt's text.
        readers: calls not issued yet that read it, this one not counted; 0: this one is the last;
            None: some, how many is not known (other rows, other calls of a sub-program).
        next_use: tokens that are generated one after another from the end of this call until the
            first of them is issued, at most; None: not known.
    """

    chars: int
    readers: int | None = None
    next_use: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One model call.

    What is marked as a hint is there for order, memory and eviction only: no result depends on it,
    and wrong ones cost time. Of two calls of an instance, the one issued later knows better.

    Attributes:
        node: dynamic path of the node, for example `f0[2]/g1`.
        stream: dynamic path of its stream ("" is the root).
        row: input row index.
        instance: number of the program instance in this process, in the order of their starts;
            older instances may be served first.
        more_tokens: tokens that calls of the instance that are not issued yet can generate at
            most (a select counts 1), or None where that is not known. A hint.
        more_chars: characters of text that the program is known to put into prompts of calls that
            are not issued yet (constants, arguments, roles; generated text that is read again is
            in `more_tokens`), about; None: not known. A hint.
        most: tokens that one sample of this call generates at most; None: `params.max_tokens`. A
            hint.
        readers: calls not issued yet whose prompts hold the end of this one, sample 0's output
            included, at most; 0: nobody reads again what lies behind the longest of `beginnings`;
            None: not known. A hint.
        next_use: tokens that are generated one after another from the end of this call until the
            first of its readers is issued, at most; None: not known. A hint.
        beginnings: of the prompt, which others read too, from the shortest to the longest. A hint.
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
    most: int | None = None
    readers: int | None = None
    next_use: int | None = None
    beginnings: tuple[Beginning, ...] = ()
    more_chars: int | None = None

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
        """Facts about what follows; may do nothing, never changes a result.

        `ahead=[[text, control], ...]`: the prompt will go on with these pieces (fields of `Text`),
        and then with something that is not known yet. They are not appended by this. Whoever can
        may compute the prompt and them ahead, when nothing else is to be done; it ends with the
        next call or the close of the stream, and a further hint takes its place. It may come
        before the first call. `readers`, `tokens`: what a program says of its prefix.
        """
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
    plain data that a journal compares; ids of results are below `vocab_size`; `takes_hints` is
    True where hints are made use of (else the executor need not make those that cost it work);
    `keeps_prefixes` is True where a call costs less after another one with the same beginning.
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
    """Sampling values for parameters that a gen does not set, the run's seed, whether calls tell
    what is known of those to come, and whether those of a row may run at the same time."""

    params: SamplingParams = field(default_factory=SamplingParams)
    seed: int = 0
    hints: bool = True
    row_parallel: bool = True
