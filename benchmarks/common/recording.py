"""One run of a program as tokens, so that every engine does the same work.

A recorded call's prompt is what an earlier call (its parent) had asked and made, up to
`shared` tokens, and then the call's own ids. An engine that replays it puts its own generated
tokens in the place of the recorded ones, as a real run on that engine would.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sgc_ir.params import CallResult
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.cache.radix_tree import RadixTree, common_prefix
from sgc_runtime.engine.choice_plan import plan_choices
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Backend, BackendStream, Call, Piece, Text


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A gen of exactly `num_new` tokens, or the scoring of `choices`.

    Attributes:
        prompt: ids as they were recorded.
        output: ids that were generated.
        choices: ids of each choice behind the prompt; empty for a gen.
        heat: temperature; 0 is greedy.
        parent: index of the call whose prompt and output begin this prompt, or None.
        shared: how many of the parent's tokens that are.
        wave: calls between this one and a call without a parent.
    """

    prompt: tuple[int, ...]
    output: tuple[int, ...] = ()
    choices: tuple[tuple[int, ...], ...] = ()
    heat: float = 0.0
    parent: int | None = None
    shared: int = 0
    wave: int = 0

    @property
    def num_new(self) -> int:
        return len(self.output)


@dataclass(frozen=True, slots=True)
class Recording:
    """The calls of a run, parents before their children."""

    calls: tuple[RecordedCall, ...]

    @property
    def prompt_tokens(self) -> int:
        return sum(len(c.prompt) for c in self.calls)

    @property
    def new_tokens(self) -> int:
        return sum(c.num_new for c in self.calls)

    @property
    def num_scored(self) -> int:
        return sum(len(c.choices) for c in self.calls)

    @property
    def longest(self) -> int:
        """Tokens of the longest request."""
        return max(
            len(c.prompt) + max([c.num_new, *(len(x) for x in c.choices)]) for c in self.calls
        )

    def must_compute(self) -> tuple[int, int]:
        """Tokens that any engine must put through the model: prompt or choice tokens, and decode.

        Equal prefixes count once; the last token of a gen or choice is never put through. A call
        whose tokens are all known counts one, for its logits.
        """
        tree = RadixTree()
        prefill = decode = 0
        for call in self.calls:
            for tail in call.choices or (call.output,):
                before = tree.cached
                _insert(tree, call.prompt)
                prompt_new = tree.cached - before
                _insert(tree, (*call.prompt, *tail[:-1]))
                more = tree.cached - before - prompt_new
                if call.choices:
                    prefill += prompt_new + more
                else:
                    prefill += prompt_new or 1
                    decode += more
        return prefill, decode

    def prompt_of(self, index: int, outputs: Sequence[Sequence[int]]) -> list[int]:
        """A call's prompt when the calls before it gave `outputs`."""
        call = self.calls[index]
        if call.parent is None:
            return list(call.prompt)
        before = [*self.prompt_of(call.parent, outputs), *outputs[call.parent]]
        return [*before[: call.shared], *call.prompt[call.shared :]]


def _insert(tree: RadixTree, ids: Sequence[int]) -> None:
    tree.insert(np.array(ids, np.int32), np.zeros(len(ids), np.int64))


class RecordingBackend:
    """A local backend that notes the tokens of every call."""

    def __init__(self, inner: LocalBackend) -> None:
        self._inner = inner
        self.calls: list[RecordedCall] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open(self) -> BackendStream:
        stream = self._inner.open()
        assert isinstance(stream, LocalStream)
        return RecordingStream(self, stream)

    def recording(self) -> Recording:
        """What was noted, with the parents found."""
        linked: list[RecordedCall] = []
        for call in self.calls:
            linked.append(_linked(call, linked))
        return Recording(tuple(linked))

    async def choice_ids(self, call: Call) -> tuple[list[int], list[list[int]]]:
        """Where the scoring begins, and each choice from there on."""
        stream = TokenStream()
        stream.append([Text(call.prompt)])
        assert call.params.choices is not None
        plan = plan_choices(stream, await self._inner.seams(), call.params.choices)
        ids = [sequence.tolist() for sequence in plan.sequences]
        return ids[0][: plan.start], [sequence[plan.start :] for sequence in ids]


class RecordingStream:
    """A stream of a `RecordingBackend`."""

    def __init__(self, owner: RecordingBackend, inner: LocalStream) -> None:
        self._owner, self._inner = owner, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, pieces: Sequence[Piece]) -> None:
        self._inner.append(pieces)

    async def generate(self, call: Call) -> list[CallResult]:
        results = await self._inner.generate(call)
        output = tuple(results[0].token_ids)
        ids = self._inner.ids
        assert ids[len(ids) - len(output) :] == list(output)
        prompt = tuple(ids[: len(ids) - len(output)])
        heat = call.params.temperature
        self._owner.calls.append(RecordedCall(prompt, output, heat=heat))
        return results

    async def select(self, call: Call) -> CallResult:
        prompt, choices = await self._owner.choice_ids(call)
        self._owner.calls.append(RecordedCall(tuple(prompt), choices=tuple(map(tuple, choices))))
        return await self._inner.select(call)

    def fork(self) -> BackendStream:
        inner = self._inner.fork()
        assert isinstance(inner, LocalStream)
        return RecordingStream(self._owner, inner)


def _linked(call: RecordedCall, before: Sequence[RecordedCall]) -> RecordedCall:
    """`call` with the earlier call that it goes on from: the one whose output it has most of."""
    ids = np.array(call.prompt, np.int32)
    best, shared = None, 0
    for i, other in enumerate(before):
        known = np.array((*other.prompt, *other.output), np.int32)
        common = common_prefix(known, ids)
        if common > max(shared, len(other.prompt)):
            best, shared = i, common
    if best is None:
        return call
    # A few tokens at the seam may have been encoded anew; the rest is the other's output.
    wave = before[best].wave + 1
    return RecordedCall(call.prompt, call.output, call.choices, call.heat, best, shared, wave)


def as_backend(backend: RecordingBackend) -> Backend:
    """The same object, for the type checker."""
    return backend
