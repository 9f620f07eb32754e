"""`outlines` and `guidance`, which take texts: a run is replayed where their ids are the recorded
ones.

Both get the recorded prompts, also where those hold what was generated: their own texts could be
encoded in another number of ids.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common.peer import PeerMissing, Replay
from benchmarks.common.recording import Recording
from benchmarks.peers.adapter import Ids, refuse_scores, replay_in_waves

_NEVER = "\x00\x01never\x01\x00"  # a stop text: until it comes, EOS is not legal


class Texts:
    """Texts of recorded prompts.

    Args:
        encode: the engine's own.
    """

    def __init__(self, tokenizer: Any, encode: Callable[[str], Ids], name: str) -> None:
        self._tokenizer, self._encode, self._name = tokenizer, encode, name

    def of(self, prompt: Sequence[int]) -> str:
        """The text of a prompt. Raises PeerMissing when the engine makes other ids of it."""
        text: str = self._tokenizer.decode(
            list(prompt), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        if list(self._encode(text)) != list(prompt):
            raise PeerMissing(f"{self._name} takes texts, and encodes a prompt in other ids")
        return text


class OutlinesBatches:
    """`outlines.from_transformers(model, tokenizer).batch`, free text."""

    name = "outlines"
    method = "outlines.from_transformers(model, tokenizer).batch, greedy, min = max new tokens"
    lacks: tuple[str, ...] = (
        "no fork and no prefix cache: every call computes its whole prompt",
        "no select by probability: a choice is generated under a constraint",
        "takes texts instead of ids",
    )

    def __init__(self, model: Any, tokenizer: Any) -> None:
        try:
            outlines: Any = import_module("outlines")
        except ImportError as error:
            raise PeerMissing("outlines is not installed; it is left out") from error
        tokenizer.chat_template = None  # else a prompt becomes a turn of a chat
        self._engine = outlines.from_transformers(model, tokenizer)
        self._texts = Texts(tokenizer, tokenizer.encode, self.name)
        self._loaded, self._recording = model, Recording(())
        self._prompts: list[str] = []
        self._made: Any = None

    def replay(self, recording: Recording, parallel: int) -> Replay:
        refuse_scores(recording, self.name)
        self._recording = recording
        self._prompts = [self._texts.of(call.prompt) for call in recording.calls]
        generate = self._loaded.generate

        def noting(*args: Any, **kwargs: Any) -> Any:
            self._made = generate(*args, **kwargs)
            return self._made

        self._loaded.generate = noting
        try:
            return replay_in_waves(self, recording, parallel)
        finally:
            del self._loaded.generate

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        asked = [self._recording.calls[i] for i in calls]
        longest, heat = max(call.num_new for call in asked), max(call.heat for call in asked)
        sampling = {"do_sample": True, "temperature": heat, "top_k": 0} if heat else {}
        self._engine.batch(
            [self._prompts[i] for i in calls],
            None,
            max_new_tokens=longest,
            min_new_tokens=longest,
            **({"do_sample": False} | sampling),
        )
        rows = self._made[:, -longest:].tolist()
        return [row[: call.num_new] for call, row in zip(asked, rows, strict=True)]

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        raise PeerMissing("outlines gives no log-probabilities of given tokens (no select)")

    def close(self) -> None:
        """Nothing runs between replays."""


class GuidanceLlamaCpp:
    """`guidance.models.LlamaCpp`, one call after another, each behind what it still has cached."""

    name = "guidance (llama.cpp)"
    method = "guidance.models.LlamaCpp + prompt + gen(max_tokens), greedy, the file's own weights"
    lacks: tuple[str, ...] = (
        "no batches: one call at a time, whatever the parallelism",
        "no prefix tree: only what the last call left in its context is reused",
        "no select by probability: a choice is generated under a constraint",
        "takes texts instead of ids",
    )

    def __init__(self, gguf: Path, threads: int, tokenizer: Any) -> None:
        try:
            self._guidance: Any = import_module("guidance")
        except ImportError as error:
            raise PeerMissing("guidance is not installed; it is left out") from error
        self._gguf, self._threads, self._tokenizer = gguf, threads, tokenizer
        self._model: Any = None
        self._room = 0

    def replay(self, recording: Recording, parallel: int) -> Replay:
        refuse_scores(recording, self.name)
        self._make_room(recording.longest)
        engine = self._model._interpreter.engine
        texts = Texts(self._tokenizer, lambda text: engine.tokenizer.encode(text.encode()), "it")
        prompts = [texts.of(call.prompt) for call in recording.calls]
        # What comes last is all that its context keeps: an unrelated text empties it.
        _ = str(self._model + "~" + self._guidance.gen(max_tokens=1, temperature=0.0))
        outputs: list[Ids] = []
        begin = time.perf_counter()
        for call, prompt in zip(recording.calls, prompts, strict=True):
            gen = self._guidance.gen("out", max_tokens=call.num_new, temperature=0.0, stop=_NEVER)
            text = (self._model + prompt + gen)["out"]
            outputs.append(engine.tokenizer.encode(text.encode()))
        return Replay(time.perf_counter() - begin, outputs)

    def close(self) -> None:
        """Its memory goes with it."""

    def _make_room(self, longest: int) -> None:
        if self._room < longest:
            self._room = max(2 * longest, 4096)
            self._model = self._guidance.models.LlamaCpp(
                str(self._gguf),
                echo=False,
                n_ctx=self._room,
                n_batch=512,
                n_threads=self._threads,
                n_threads_batch=self._threads,
                verbose=False,
            )
