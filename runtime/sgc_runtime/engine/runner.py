"""What computes steps and chooses ids: the contract between the engine's core and a device.

The core drives one runner, in one thread. With overlap a step goes like this:

    launched = runner.launch(chunks)            # forward n + 1 begins
    results = flight.result()                   # ids of step n: the only wait
    runner.again(flight, ...)                   # seldom: ids of step n that were refused
    flight = runner.sample(launched, rows, ...) # choosing the ids of step n + 1 begins

and without it `launch`, `sample`, `result` of the same step follow each other. Whatever a runner
begins runs in the order in which it was begun, so the core frees, shares and reuses slots as soon
as the forward that reads or writes them is launched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.sampling.row import TokenLogprobs


class Launched(Protocol):
    """A forward that has begun.

    Attributes:
        sampling: requests whose next id may be chosen when it is done, in the order of the chunks:
            generations whose chunk ends at `num_ahead` and that are not `closing`. The logits of
            the chunk's last token are kept for each.
        recording: (request, first, last): positions `[first, last)` of the chunk whose following
            ids are known at the launch and lack log-probabilities that were asked for; see
            `WantedRows`.
        scoring: (request, first, last): positions of a scoring whose logits are wanted.
    """

    sampling: list[Request]
    recording: list[Positions]
    scoring: list[Positions]

    def kept_logits(self, request: Request) -> torch.Tensor:
        """A copy, `[1, vocab]` float32 on the runner's device, of the logits of one of `sampling`,
        which is chosen for later by `Runner.sample_kept`. To be called before `Runner.sample`."""
        ...


@dataclass(frozen=True, slots=True)
class Results:
    """What came of one `sample` or `sample_kept`. A place is an index into its `rows`.

    Attributes:
        ids: one for each row; `NO_TOKEN` (-1) where the logits are not numbers or nothing is
            allowed.
        logprobs: by place, of rows with `wants_logprobs`: that of the id, and the likeliest ones;
            of the model's logits, before any change.
        shares: by place, of rows with a rule: the log-probability, in nats, of all ids together
            that the mask allows.
        recorded: for each of `recording`, the log-probabilities of the ids behind its positions.
        scores: for each of `scoring`, the log-probabilities of `trie.edges(first, last)`.
    """

    ids: Sequence[int]
    logprobs: Mapping[int, TokenLogprobs] = field(default_factory=dict)
    shares: Mapping[int, float] = field(default_factory=dict)
    recorded: Sequence[Sequence[TokenLogprobs]] = ()
    scores: Sequence[Sequence[float]] = ()


class Flight(Protocol):
    """Ids that are being chosen."""

    def result(self) -> Results:
        """Waits until they are known. To be called once."""
        ...


class Runner(Protocol):
    """Computes on one device. It changes nothing of a request but `num_tabled`."""

    def launch(self, chunks: Sequence[Chunk]) -> Launched:
        """Begin a forward; returns without waiting for it.

        A chunk with `is_pending` (`end` is one more than the request's `num_tokens`) ends with the
        id that the last `sample` chooses for its request; the core does not know it, the runner
        does (where that is `NO_TOKEN`, any id will do: the request is about to fail). All its other
        ids are in `request.tokens`, and its slots in `request.slots[:end]`.

        Raises:
            Exception: the requests of this step fail with it, no others.
        """
        ...

    def sample(
        self,
        launched: Launched,
        rows: Sequence[Request],
        recording: Sequence[Positions],
        scoring: Sequence[Positions],
    ) -> Flight:
        """Begin to choose ids by the logits of `launched`, the last forward; called once for each,
        also without any rows. Nothing waits, and no request or row is changed (`weigh`, `advance`
        are the core's).

        Args:
            rows: of `launched.sampling`, in its order, those that get an id now. Their
                `SamplingRow` is up to date; where it has a rule, `mask` is prepared. Ids that turn
                out not to be canonical are refused by the core, see `again`.
            recording: of `launched.recording` those still wanted, then (request, p, p + 1) for
                requests of `launched.sampling` that are not in `rows`: p is the last position of
                the chunk, and the id behind it has become known as one that is forced. The ids
                behind `[first, last)` are `request.tokens[first + 1 : last + 1]`, read now.
            scoring: of `launched.scoring` those still wanted.

        Raises:
            Exception: as for `launch`; also from `Flight.result`.
        """
        ...

    def sample_kept(self, rows: Sequence[Request], logits: Sequence[torch.Tensor]) -> Flight:
        """Begin to choose ids by logits that `kept_logits` gave, one `[1, vocab]` for each row.

        The rows have stood aside. No chunk is pending for them: with overlap it is called before
        the launch of a forward, which the result, taken after it, need not wait for.
        """
        ...

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        """Other ids for some rows of a flight whose result is there: one batch, which waits.

        For each of the places `rows` the next choice without the ids `excluded`, which were chosen
        for it before, in this order: for a greedy row the best one; else one drawn with noise of
        its own (the number of ids excluded decides it), or, where the filters leave over none, the
        likeliest of all that the mask allows. `NO_TOKEN` where nothing is left. See
        `sampling.sampler`.

        The logits of a flight are good for it until the launch after the next one. Ids that the
        device keeps for pending chunks need not change: the core computes the row anew.
        """
        ...

    def forget(self, request: Request) -> None:
        """The request has left the flight (done, failed, cancelled or retracted): its place on the
        device, if it has one, is free; what is launched may still read it. Where it comes back,
        its slots are others."""
        ...

    def close(self) -> None:
        """Wait for what is in flight; nothing is called after it."""
        ...
