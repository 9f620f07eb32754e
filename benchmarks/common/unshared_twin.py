"""Work of the same shape as a part's that has nothing in common, for the gain per token.

Texts are the part's own, each behind a number of its own: as many tokens a sequence, as many
sequences side by side and as much padding, but no prefix that two of them begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.common.peer import waves
from benchmarks.common.recording import RecordedCall, Recording
from benchmarks.common.sgc_engine import Job
from benchmarks.common.workloads import choose_ending, say


@dataclass(frozen=True, slots=True)
class Twin:
    """The work up to the first tokens, and with `decoded` more of them, if the part decodes."""

    first: Job
    all: Job | None
    decoded: int


def unshared_twin(
    recording: Recording, text_of: Callable[[Iterable[int]], str], rows: int, more: int
) -> Twin:
    """Calls of a part's heaviest wave, evenly chosen from it, as independent ones.

    Args:
        text_of: decodes ids.
        rows: how many calls, at most.
        more: tokens behind the first one of each call, where the part has such.
    """
    wave = _heaviest_wave(recording)
    number = min(rows, len(wave))
    calls = [wave[i * len(wave) // number] for i in range(number)]
    if recording.num_scored:
        return Twin(Job(choose_ending, _scored(calls, text_of)), None, 0)
    first = Job(say, _generated(calls, text_of, 1))
    if all(call.num_new == 1 for call in calls):
        return Twin(first, None, 0)
    return Twin(first, Job(say, _generated(calls, text_of, 1 + more)), more * number)


def _heaviest_wave(recording: Recording) -> list[RecordedCall]:
    """The calls that run side by side and generate most, or have the longest prompts."""
    calls = [[recording.calls[i] for i in wave] for wave in waves(recording)]
    return max(
        calls,
        key=lambda wave: (sum(c.num_new for c in wave), sum(len(c.prompt) for c in wave)),
    )


def _scored(
    calls: list[RecordedCall], text_of: Callable[[Iterable[int]], str]
) -> list[Mapping[str, Any]]:
    """One choice a row, as the rows of one context would share it."""
    chosen = [call.choices[i % len(call.choices)] for i, call in enumerate(calls)]
    return [
        {"examples": f"{i}. ", "context": text_of(call.prompt), "endings": [text_of(choice)]}
        for i, (call, choice) in enumerate(zip(calls, chosen, strict=True))
    ]


def _generated(
    calls: list[RecordedCall], text_of: Callable[[Iterable[int]], str], length: int
) -> list[Mapping[str, Any]]:
    heat = max(call.heat for call in calls)  # one of them all: peers sample a batch alike
    return [
        {"text": f"{i}. {text_of(call.prompt)}", "length": length, "heat": heat}
        for i, call in enumerate(calls)
    ]
