"""What a peer engine of the benchmarks can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks.common.recording import Recording

PEERS = ("transformers", "continuous", "prefilled", "llama")


class PeerMissing(Exception):
    """The peer is not installed, or cannot do a part; the message says so in one line."""


@dataclass(slots=True)
class Replay:
    """What a peer did.

    Attributes:
        seconds: wall time, without set-up that a long-running process does once.
        outputs: generated ids of each call.
        scored: numbers of scored choices of each call.
        computed_tokens: tokens put through the model, padding included; None: not counted.
    """

    seconds: float
    outputs: list[list[int]] = field(default_factory=list)
    scored: int = 0
    computed_tokens: int | None = None


class Peer(Protocol):
    """An engine that replays recordings, each time on a cold prefix cache."""

    name: str
    method: str  # in one sentence, how it is used

    def replay(self, recording: Recording) -> Replay: ...


def check_replay(recording: Recording, replay: Replay) -> None:
    """Raises ValueError unless the peer did the recorded work."""
    lengths = [len(output) for output in replay.outputs]
    expected = [call.num_new for call in recording.calls]
    if any(expected) and lengths != expected:
        raise ValueError(f"{sum(lengths)} new tokens instead of {sum(expected)}")
    if replay.scored != recording.num_scored:
        raise ValueError(f"{replay.scored} scored choices instead of {recording.num_scored}")


def waves(recording: Recording) -> list[list[int]]:
    """Indices of the calls that can run at the same time, wave after wave."""
    last = max((call.wave for call in recording.calls), default=-1)
    return [
        [i for i, call in enumerate(recording.calls) if call.wave == wave]
        for wave in range(last + 1)
    ]


def batches(lengths: Sequence[int], size: int) -> list[list[int]]:
    """Indices by length, in batches of at most `size`: neighbours need little padding."""
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    return [order[i : i + size] for i in range(0, len(order), size)]
