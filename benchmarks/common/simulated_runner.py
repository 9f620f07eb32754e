"""Computes nothing: a step takes virtual seconds, and its ids come out of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Flight, Launched, Results
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.sampling.sampler import Draft, choose

Script = Callable[[Request], Ids]  # all ids of a gen, in order


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a step: a constant, and a share for each prompt token and each running gen."""

    step: float = 0.012
    prompt_token: float = 0.0008
    gen: float = 0.0014


@dataclass(slots=True)
class Work:
    """Tokens that went through the model: those of prompts (computed again ones among them), of
    choices that were scored, and of gens."""

    prompt_tokens: int = 0
    scored_tokens: int = 0
    gen_tokens: int = 0
    steps: int = 0

    def add(self, chunk: Chunk) -> tuple[int, int]:
        """Count a chunk; its tokens that are computed as a prompt, and as a running gen."""
        request, start, end = chunk
        if request.state is State.RUNNING:
            self.gen_tokens += end - start
            return 0, end - start
        scored = 0
        if request.scoring is not None:
            scored = max(0, end - max(start, request.scoring.trie.num_prompt))
        self.scored_tokens += scored
        self.prompt_tokens += end - start - scored
        return end - start, 0


@dataclass(slots=True)
class SimulatedLaunch:
    """A forward that is done. See `Launched`."""

    sampling: list[Request] = field(default_factory=list)
    recording: list[Positions] = field(default_factory=list)
    scoring: list[Positions] = field(default_factory=list)

    def kept_logits(self, request: Request) -> torch.Tensor:
        raise AssertionError("nothing stands aside in virtual time")


@dataclass(frozen=True, slots=True)
class SimulatedFlight:
    """Ids that have been chosen."""

    results: Results
    draft: Draft | None = None

    def result(self) -> Results:
        return self.results


class SimulatedRunner:
    """A `Runner` without a model.

    Args:
        script: what a gen says; where a constraint does not allow it, the likeliest other id comes.
        vocab_size: ids of the model.

    Attributes:
        now: virtual seconds since the beginning.
        work: what was computed.
        watch: called with each chunk that is about to be computed.
    """

    def __init__(self, script: Script, vocab_size: int, cost: StepCost) -> None:
        self._script, self._vocab_size, self._cost = script, vocab_size, cost
        self._said: dict[Request, Ids] = {}
        self.watch: Callable[[Chunk], None] = _ignore
        self.now = 0.0
        self.work = Work()

    def launch(self, chunks: Sequence[Chunk]) -> SimulatedLaunch:
        launched = SimulatedLaunch()
        seconds = self._cost.step
        for chunk in chunks:
            self.watch(chunk)
            prompt, gen = self.work.add(chunk)
            seconds += self._cost.prompt_token * prompt + self._cost.gen * gen
            _note(launched, chunk)
        self.now += seconds
        self.work.steps += 1
        return launched

    def sample(
        self,
        launched: Launched,
        rows: Sequence[Request],
        recording: Sequence[Positions],
        scoring: Sequence[Positions],
    ) -> SimulatedFlight:
        assert not recording, "no log-probabilities in virtual time"
        scores = [_scores(*position) for position in scoring]
        if any(request.guide is not None for request in rows):
            draft = choose(self._logits(rows), [r.row for r in rows if r.row is not None])
            return SimulatedFlight(Results(draft.ids, shares=draft.shares, scores=scores), draft)
        return SimulatedFlight(Results([self._next(r) for r in rows], scores=scores))

    def sample_kept(self, rows: Sequence[Request], logits: Sequence[torch.Tensor]) -> Flight:
        raise AssertionError("nothing stands aside in virtual time")

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        assert isinstance(flight, SimulatedFlight)
        draft = flight.draft
        assert draft is not None, "only a constraint refuses ids"
        return [draft.again(i, ids) for i, ids in zip(rows, excluded, strict=True)]

    def forget(self, request: Request) -> None:
        return

    def close(self) -> None:
        return

    # -- below --------------------------------------------------------------------------------

    def _next(self, request: Request) -> int:
        said = self._said.get(request)
        if said is None:
            said = self._said[request] = self._script(request)
        place = request.num_tokens - request.num_prompt
        return int(said[min(place, len(said) - 1)])

    def _logits(self, rows: Sequence[Request]) -> torch.Tensor:
        """`[rows, vocab]` float32; the scripted id is by far the likeliest."""
        logits = -0.001 * torch.arange(self._vocab_size, dtype=torch.float32).repeat(len(rows), 1)
        logits[range(len(rows)), [self._next(r) for r in rows]] = 100.0
        return logits


def _ignore(chunk: Chunk) -> None:
    return


def _note(launched: SimulatedLaunch, chunk: Chunk) -> None:
    """What of a chunk gives ids or scores; see `Launched`."""
    request, start, end = chunk
    if request.scoring is not None:
        first = max(start, request.scoring.trie.first_row)
        if first < end:
            launched.scoring.append((request, first, end))
    elif end == request.num_ahead and not request.closing:
        launched.sampling.append(request)


def _scores(request: Request, first: int, last: int) -> list[float]:
    """Log-probabilities that are a function of the id alone."""
    assert request.scoring is not None
    _, ids = request.scoring.trie.edges(first, last)
    return [-1.0 - (int(token) * 2_654_435_761 % 1_000) / 100 for token in ids]
