"""A runner that computes a step, and chooses its ids, while it is asked for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np
import torch

from sgc_runtime.engine.profile import NO_PROFILE, Profiling
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Flight, Launched, Results
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions, StepInput, StepInputs
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.sampling.logprobs import next_token_logprobs, token_logprobs
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs
from sgc_runtime.sampling.sampler import Draft, choose


class Model(Protocol):
    """Computes one step and writes its keys and values."""

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        """Logits `[len(batch.logit_rows), vocab]` float32."""
        ...


class HostLaunched:
    """A forward that is done; `logits` holds the rows of `StepInput`."""

    def __init__(self, work: StepInput, logits: torch.Tensor) -> None:
        self.sampling, self.recording, self.scoring = work.sampling, work.recording, work.scoring
        self.logits = logits
        self._places: Mapping[Request, int] | None = None

    def kept_logits(self, request: Request) -> torch.Tensor:
        place = self.place(request)
        return self.logits[place : place + 1].clone()

    def place(self, request: Request) -> int:
        """Row of the logits by which the next id of `request` is chosen."""
        if self._places is None:
            self._places = {r: i for i, r in enumerate(self.sampling)}
        return self._places[request]

    def sampled_logits(self, rows: Sequence[Request]) -> torch.Tensor:
        """`[rows, vocab]`, to be used up; `rows` are of `sampling`, in its order."""
        if len(rows) == len(self.sampling):
            return self.logits[: len(rows)]
        return self.logits[[self.place(r) for r in rows]]

    def recorded_logits(self, recording: Sequence[Positions]) -> list[torch.Tensor]:
        """For each of `recording` its rows of the logits, `[positions, vocab]`."""
        firsts, row = {}, len(self.sampling)
        for position in self.recording:
            firsts[position] = row
            row += position[2] - position[1]
        found = []
        for position in recording:
            request, first, last = position
            row = firsts[position] if position in firsts else self.place(request)
            found.append(self.logits[row : row + last - first])
        return found

    def scored_logits(self, scoring: Sequence[Positions]) -> torch.Tensor:
        """The rows of `scoring`, of `self.scoring`, behind each other."""
        row = len(self.sampling) + sum(last - first for _, first, last in self.recording)
        if len(scoring) == len(self.scoring):
            return self.logits[row:]
        wanted, parts = {request for request, _, _ in scoring}, []
        for request, first, last in self.scoring:
            if request in wanted:
                parts.append(self.logits[row : row + last - first])
            row += last - first
        return torch.cat(parts)


@dataclass(frozen=True, slots=True)
class HostFlight:
    """Ids that have been chosen."""

    draft: Draft
    results: Results

    def result(self) -> Results:
        return self.results


class HostRunner:
    """Computes on the device of `model` by plain torch, one step after the other.

    Attributes:
        inputs: makes the input of each step.
    """

    def __init__(
        self,
        model: Model,
        kv: KVTensors,
        device: torch.device | None = None,
        profile: Profiling = NO_PROFILE,
    ) -> None:
        self.model, self.kv = model, kv
        self.inputs = StepInputs(device if device is not None else torch.device("cpu"))
        self._profile = profile
        self._last_ids: dict[Request, int] = {}

    def launch(self, chunks: Sequence[Chunk]) -> HostLaunched:
        with self._profile.span("prepare"):
            work = self.inputs.make(chunks, self._last_ids)
        prefills = any(c.request.state is State.PREFILLING for c in chunks)
        with self._profile.device_span("prefill" if prefills else "decode"):
            return HostLaunched(work, self.model.forward(work.batch, self.kv))

    def sample(
        self,
        launched: Launched,
        rows: Sequence[Request],
        recording: Sequence[Positions],
        scoring: Sequence[Positions],
    ) -> HostFlight:
        assert isinstance(launched, HostLaunched)
        with self._profile.device_span("sample"):
            # Before ids are chosen, which uses logits up.
            parts = launched.recorded_logits(recording)
            recorded = [_recorded(*args) for args in zip(recording, parts, strict=True)]
            scores = _scores(scoring, launched.scored_logits(scoring)) if scoring else []
            return self._choose(rows, launched.sampled_logits(rows), recorded, scores)

    def sample_kept(self, rows: Sequence[Request], logits: Sequence[torch.Tensor]) -> HostFlight:
        with self._profile.device_span("sample"):
            return self._choose(rows, torch.cat(list(logits)), [], [])

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        assert isinstance(flight, HostFlight)
        return [flight.draft.again(i, ids) for i, ids in zip(rows, excluded, strict=True)]

    def forget(self, request: Request) -> None:
        self._last_ids.pop(request, None)

    def close(self) -> None:
        return

    def _choose(
        self,
        requests: Sequence[Request],
        logits: torch.Tensor,
        recorded: list[list[TokenLogprobs]],
        scores: list[list[float]],
    ) -> HostFlight:
        draft = choose(logits, [_row(r) for r in requests]) if requests else Draft([], {}, {})
        # Where none can be chosen the request will fail; until then any id may be computed.
        self._last_ids.update((r, max(0, i)) for r, i in zip(requests, draft.ids, strict=True))
        results = Results(
            ids=draft.ids,
            logprobs=draft.logprobs(draft.ids),
            shares=draft.shares,
            recorded=recorded,
            scores=scores,
        )
        return HostFlight(draft, results)


def _row(request: Request) -> SamplingRow:
    assert request.row is not None
    return request.row


def _recorded(position: Positions, logits: torch.Tensor) -> list[TokenLogprobs]:
    request, first, last = position
    ids = request.tokens[first + 1 : last + 1].tolist()
    return token_logprobs(logits, ids, [_row(request).params.top_logprobs] * len(ids))


def _scores(scoring: Sequence[Positions], logits: torch.Tensor) -> list[list[float]]:
    rows, ids, counts, first_row = [], [], [], 0
    for request, first, last in scoring:
        assert request.scoring is not None
        at, targets = request.scoring.trie.edges(first, last)
        rows.append(at + first_row)
        ids.append(targets)
        counts.append(len(targets))
        first_row += last - first
    found = iter(next_token_logprobs(logits, np.concatenate(rows), np.concatenate(ids)))
    return [list(islice(found, count)) for count in counts]
