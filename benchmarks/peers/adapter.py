"""What an engine has to offer to replay recorded runs, and the replay itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from benchmarks.common.peer import PeerMissing, Replay, waves
from benchmarks.common.recording import Recording

Ids = list[int]


class Adapter(Protocol):
    """An engine.

    Attributes:
        name: in tables.
        method: how it is used, in one sentence.
        lacks: what the programs use that it does not have, and what it does instead.
    """

    name: str
    method: str
    lacks: tuple[str, ...]

    def replay(self, recording: Recording, parallel: int) -> Replay:
        """Do the recorded work on a cold prefix cache, `parallel` calls at a time.

        Raises PeerMissing when the engine cannot do it.
        """
        ...

    def close(self) -> None: ...


class Batches(Protocol):
    """An engine that takes lists of prompts."""

    def generate(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[Ids]:
        """The recorded number of ids for each prompt; `calls` are their numbers."""
        ...

    def score(self, calls: Sequence[int], prompts: Sequence[Ids]) -> list[int]:
        """How many choices of each call got a finite score."""
        ...


def replay_in_waves(engine: Batches, recording: Recording, parallel: int) -> Replay:
    """Each wave in lists of `parallel` calls, which end together.

    A prompt goes on from what the engine itself made in the calls before, where the recorded one
    goes on from a recorded output.
    """
    outputs: list[Ids] = [[] for _ in recording.calls]
    scored = 0
    begin = time.perf_counter()
    for wave in waves(recording):
        kinds = [bool(recording.calls[i].choices) for i in wave]
        for scoring in (False, True):
            numbers = [i for i, kind in zip(wave, kinds, strict=True) if kind == scoring]
            # Neighbours in length need little padding.
            numbers.sort(key=lambda i: len(recording.calls[i].prompt))
            for first in range(0, len(numbers), parallel):
                part = numbers[first : first + parallel]
                prompts = [recording.prompt_of(i, outputs) for i in part]
                if scoring:
                    scored += sum(engine.score(part, prompts))
                    continue
                for i, ids in zip(part, engine.generate(part, prompts), strict=True):
                    outputs[i] = ids
    return Replay(time.perf_counter() - begin, outputs, scored)


def check_work(recording: Recording, replay: Replay) -> None:
    """Raises ValueError unless each call made as many ids as recorded, and all choices were
    scored, so that both engines did the same work."""
    for i, (call, ids) in enumerate(zip(recording.calls, replay.outputs, strict=True)):
        if len(ids) != call.num_new:
            raise ValueError(f"call {i} made {len(ids)} ids instead of {call.num_new}")
    if replay.scored != recording.num_scored:
        raise ValueError(f"{replay.scored} scored choices instead of {recording.num_scored}")


def same_first_ids(recording: Recording, replay: Replay, ours: Replay) -> float:
    """Share of the greedy calls without a parent whose first id is the one of our replay; 1.0
    where there is none. Rounding turns few of them; prompts that were not the same turn many."""
    pairs = [
        (own[0], ids[0])
        for call, ids, own in zip(recording.calls, replay.outputs, ours.outputs, strict=True)
        if call.parent is None and call.output and not call.heat
    ]
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else 1.0


def refuse_scores(recording: Recording, name: str) -> None:
    """Raises PeerMissing when the run has selects, which `name` cannot do."""
    if recording.num_scored:
        raise PeerMissing(f"{name} gives no log-probabilities of given tokens (no select)")
