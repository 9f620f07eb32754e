"""A forward that has begun on a device, and whose logits it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions, WantedRows


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose logits a step gives, in this order: `sampling`, then each position of `recording`, then
    of `scoring`.

    Attributes:
        rows: of the step's tokens; None: every row, in order.
    """

    sampling: list[Request]
    recording: list[Positions] = field(default_factory=list)
    scoring: list[Positions] = field(default_factory=list)
    rows: NDArray[np.int64] | None = None


def wanted_of(chunks: Sequence[Chunk]) -> Wanted:
    """What the chunks of a step, packed in this order, want."""
    if all(_samples_only(chunk) for chunk in chunks):
        return Wanted([chunk.request for chunk in chunks])
    wanted, row = WantedRows(), 0
    for chunk in chunks:
        wanted.add(chunk, row)
        row += chunk.end - chunk.start
    rows = np.concatenate(wanted.rows) if wanted.rows else np.empty(0, np.int64)
    return Wanted(wanted.sampling, wanted.recording, wanted.scoring, rows)


def _samples_only(chunk: Chunk) -> bool:
    """Whether it is one token, whose logits are for the next id alone."""
    request, start, end = chunk
    return (
        end - start == 1
        and request.scoring is None
        and not request.closing
        and end == request.num_tokens + request.pending
        and (not request.logprobs or request.logprobs[-1] is not None)
    )


class DeviceLaunched:
    """A `Launched`; `logits` are `[rows, vocab]` float32, in the order of `Wanted`."""

    def __init__(self, wanted: Wanted, logits: torch.Tensor) -> None:
        self.sampling, self.recording, self.scoring = (
            wanted.sampling,
            wanted.recording,
            wanted.scoring,
        )
        self.logits = logits
        self._places: dict[Request, int] | None = None

    def kept_logits(self, request: Request) -> torch.Tensor:
        place = self._place(request)
        return self.logits[place : place + 1].clone()

    def sampled_rows(self, rows: Sequence[Request]) -> list[int]:
        """Where in `logits` the next ids of some of `sampling` are chosen by."""
        if len(rows) == len(self.sampling):
            return list(range(len(rows)))
        return [self._place(request) for request in rows]

    def recorded_rows(self, recording: Sequence[Positions]) -> list[int]:
        """For each of `recording` its first row of `logits`; see `Runner.sample`."""
        if not recording:
            return []
        firsts = dict(zip(self.recording, self._firsts(self.recording, 0), strict=True))
        return [firsts[p] if p in firsts else self._place(p[0]) for p in recording]

    def scored_rows(self, scoring: Sequence[Positions]) -> list[int]:
        """The same for `scoring`."""
        if not scoring:
            return []
        before = sum(last - first for _, first, last in self.recording)
        firsts = dict(zip(self.scoring, self._firsts(self.scoring, before), strict=True))
        return [firsts[p] for p in scoring]

    def _firsts(self, positions: Sequence[Positions], before: int) -> list[int]:
        row, found = len(self.sampling) + before, []
        for _, first, last in positions:
            found.append(row)
            row += last - first
        return found

    def _place(self, request: Request) -> int:
        if self._places is None:
            self._places = {r: i for i, r in enumerate(self.sampling)}
        return self._places[request]
