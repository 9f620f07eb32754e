"""A backend for tests: replies come from a Python function, every call is logged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sgc_ir.errors import BackendError
from sgc_ir.params import CallResult, SamplingParams, Usage
from sgc_runtime.backends.scripted_reply import finish_reply
from sgc_runtime.backends.scripted_scores import made_up_scores
from sgc_runtime.backends.scripted_tokens import TokenizerTokens, Tokens, WordTokens
from sgc_runtime.executor.backend import Call, ChatTemplate, Media, Piece, Text
from sgc_runtime.executor.chatml import ChatML

Reply = Callable[[str, SamplingParams], str]
Select = Callable[[str, Sequence[str]], Sequence[float]]


class ScriptedBackend:
    """Answers calls from functions; see the arguments.

    Args:
        reply: `reply(prompt, params)` gives the raw text that a model would go on with. Stops,
            limits and constraints are applied to it; its end is EOS.
        select: `select(prompt, choices)` gives one score a choice; without it, scores are made
            up from prompt and choices, the same in every process.
        delay: `delay(prompt)` gives seconds to wait before the call is answered.
        fail: `fail(prompt)` gives an exception to raise, or None.
        tokenizer: anything with `encode` and `decode`; without it a token is a word with the
            blanks before it.
        chat_template: a Jinja source, or an object with `render` and `control_tokens`; without
            it ChatML without a default system turn.

    Attributes:
        calls: one dict a call in dispatch order: `kind` ("gen" or "select"), `node`, `stream`,
            `prompt`, `params` (gen's argument names, defaults resolved), `result` (the text that
            the call adds to its stream, a list for n > 1, the choice for select; None while the
            call runs or when it failed), and `media` where the prompt holds any.
    """

    name = "scripted"

    takes_hints = False  # a test that looks at hints sets it

    def __init__(
        self,
        reply: Reply,
        select: Select | None = None,
        delay: Callable[[str], float] | None = None,
        fail: Callable[[str], Exception | None] | None = None,
        tokenizer: Any = None,
        chat_template: ChatTemplate | str | None = None,
    ) -> None:
        self.calls: list[dict[str, Any]] = []
        self.chat_template: ChatTemplate = _template(chat_template)
        self.tokens: Tokens = WordTokens() if tokenizer is None else TokenizerTokens(tokenizer)
        self.reply = reply
        self.select = select
        self.delay = delay
        self.fail = fail

    def open(self) -> ScriptedStream:
        """An empty stream."""
        return ScriptedStream(self)

    def stats(self) -> Mapping[str, Any]:
        """No counters."""
        return {}

    def close(self) -> None:
        """Nothing to give back."""

    async def begin(
        self, kind: str, prompt: str, media: Sequence[Media], call: Call
    ) -> dict[str, Any]:
        """Log a call, wait and fail as scripted; gives the log entry."""
        entry: dict[str, Any] = {
            "kind": kind,
            "node": call.node,
            "stream": call.stream,
            "prompt": prompt,
            "params": call.params.to_dict(),
            "result": None,
        }
        if media:
            entry["media"] = list(media)
        self.calls.append(entry)
        seconds = self.delay(prompt) if self.delay is not None else 0.0
        if seconds > 0:
            await asyncio.sleep(seconds)
        error = self.fail(prompt) if self.fail is not None else None
        if error is not None:
            raise error
        return entry


class ScriptedStream:
    """One prompt; text is kept as it is."""

    def __init__(self, backend: ScriptedBackend, texts: Sequence[str] = ()) -> None:
        self._backend = backend
        self._texts = list(texts)
        self._media: list[Media] = []
        self._counted = (0, 0)  # characters of the prompt, and tokens of so many characters

    def append(self, pieces: Sequence[Piece]) -> None:
        """Add to the prompt; media count as `<image>` or `<video>`."""
        for piece in pieces:
            if isinstance(piece, Text):
                self._texts.append(piece.text)
            else:
                self._texts.append(f"<{piece.kind}>")
                self._media.append(piece)

    def _prompt(self) -> str:
        self._texts = ["".join(self._texts)]
        return self._texts[0]

    def _num_tokens(self, prompt: str) -> int:
        num_tokens = self._backend.tokens.count_on(prompt, *self._counted)
        self._counted = (len(prompt), num_tokens)
        return num_tokens

    async def generate(self, call: Call) -> list[CallResult]:
        """Ask `reply` once a sample."""
        backend, prompt = self._backend, self._prompt()
        entry = await backend.begin("gen", prompt, self._media, call)
        replies = [backend.reply(prompt, call.params) for _ in range(call.params.n)]
        for reply in replies:
            if not isinstance(reply, str):
                raise BackendError(f"reply() gave {type(reply).__name__}; it must give a str")
        results = [finish_reply(reply, call.params, backend.tokens) for reply in replies]
        texts = [result.text for result in results]
        entry["result"] = texts if call.params.n > 1 else texts[0]
        usage = Usage(self._num_tokens(prompt), results[0].usage.completion_tokens)
        results[0] = replace(results[0], usage=usage)
        if call.on_text is not None:
            for token in backend.tokens.split(results[0].text):
                call.on_text(token.text)
        self._texts.append(results[0].text)
        return results

    async def select(self, call: Call) -> CallResult:
        """The choice with the highest score, the first of them on ties."""
        backend, prompt = self._backend, self._prompt()
        choices = call.params.choices or ()
        entry = await backend.begin("select", prompt, self._media, call)
        if backend.select is not None:
            scores = [float(score) for score in backend.select(prompt, list(choices))]
        else:
            scores = made_up_scores(prompt, choices, call.params.method, backend.tokens)
        if len(scores) != len(choices):
            raise BackendError(f"select() gave {len(scores)} scores for {len(choices)} choices")
        best = max(range(len(choices)), key=lambda i: (scores[i], -i))
        entry["result"] = choices[best]
        self._texts.append(choices[best])
        scored = sum(backend.tokens.count(choice) for choice in choices)
        usage = Usage(prompt_tokens=self._num_tokens(prompt), scored_tokens=scored)
        return CallResult(
            text=choices[best], finish_reason="choice", usage=usage, meta={"scores": scores}
        )

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        """Append the text that the call gave; it is not logged."""
        self._texts.append(results[0].text)

    def fork(self) -> ScriptedStream:
        """A stream with the same prompt."""
        other = ScriptedStream(self._backend, [self._prompt()])
        other._media = list(self._media)
        other._counted = self._counted
        return other

    def close(self) -> None:
        """Nothing to give back."""

    def hint(self, **facts: Any) -> None:
        """Hints change nothing here."""


def _template(chat_template: ChatTemplate | str | None) -> ChatTemplate:
    if chat_template is None:
        return ChatML()
    if isinstance(chat_template, str):
        from sgc_runtime.backends.scripted_template import template_of  # jinja only when needed

        return template_of(chat_template)
    return chat_template
