"""The next ids of generations: sampled, forced by a constraint, taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch

from sgc_ir.errors import BackendError, ConstraintError
from sgc_runtime.engine.guide import Change
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Scheduler
from sgc_runtime.engine.slices import Slices, Work
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.sampling.logprobs import token_logprobs
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs
from sgc_runtime.sampling.sampler import NO_TOKEN, sample


class Samples:
    """Chooses ids and follows what comes of them. A failure fails the request that it is of.

    Args:
        end: called with a request whose gen has ended and has all that was asked for.
        fail: called with a request and what is wrong with it.
        queue: called with the requests of a call that have begun.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        end: Callable[[Request], None],
        fail: Callable[[Request, Exception], None],
        queue: Callable[[Sequence[Request]], None],
    ) -> None:
        self._scheduler, self._metrics = scheduler, metrics
        self._end, self._fail, self._queue = end, fail, queue
        self._slices = Slices(metrics, fail)
        self._begun: list[Sequence[Request]] = []
        self._late: list[tuple[Request, torch.Tensor]] = []

    @property
    def num_aside(self) -> int:
        """How many requests, or calls that have not begun, stand aside (see `slices`)."""
        return len(self._slices)

    def begin(self, requests: Sequence[Request]) -> None:
        """Let the new requests of a call begin with what their constraint forces; some may end with
        that. They are queued when all have begun, perhaps in a later step."""
        bound = [r for r in requests if r.guide is not None]
        if not bound:
            self._queue(requests)
            return
        self._slices.do(requests, partial(self._begin_next, requests, iter(bound)))
        self._queue_begun()

    def _begin_next(
        self, requests: Sequence[Request], left: Iterator[Request], seconds: float
    ) -> Work | None:
        request = next(left, None)
        if request is None:
            self._begun.append(requests)
            return None
        assert request.guide is not None
        request.guide.begin()
        then = partial(self._begin_next, requests, left)
        return partial(self._take_on, request, None, None, then)

    def _queue_begun(self) -> None:
        begun, self._begun = self._begun, []
        for requests in begun:
            self._queue(requests)

    def go_on(self) -> None:
        """Begin a step: go on with those that stand aside."""
        self._slices.go_on()
        self._queue_begun()
        late, self._late = self._late, []
        if not late:
            return
        try:
            self._sample([r for r, _ in late], torch.cat([logits for _, logits in late]))
        except Exception as exc:
            for request, _ in late:
                self._fail(request, exc)

    def take(self, requests: Sequence[Request], logits: torch.Tensor) -> None:
        """The next id of each, by its row of `logits` (`[requests, vocab]` float32)."""
        sampled = [i for i, r in enumerate(requests) if self._samples(r, logits[i : i + 1])]
        if len(sampled) == len(requests):
            self._sample(requests, logits)
        elif sampled:
            self._sample([requests[i] for i in sampled], logits[sampled])

    def record(self, recording: Sequence[Positions], logits: torch.Tensor) -> None:
        """Note log-probabilities of ids that were forced.

        Args:
            recording: requests, each with the positions `[first, last)` behind which they stand.
            logits: `[all positions, vocab]` float32.
        """
        first_row = 0
        for request, first, last in recording:
            rows = logits[first_row : first_row + last - first]
            first_row += last - first
            assert request.row is not None
            ids = request.tokens[first + 1 : last + 1].tolist()
            counts = [request.row.params.top_logprobs] * len(ids)
            for i, found in enumerate(token_logprobs(rows, ids, counts)):
                request.record(first + 1 + i, found, rows[i].clone())

    # -- below --------------------------------------------------------------------------------

    def _samples(self, request: Request, logits: torch.Tensor) -> bool:
        """Whether an id is to be sampled now; one that is forced is taken here."""
        guide = request.guide
        if guide is None:
            return True
        if not guide.waiting:
            return self._is_prepared(request, logits)
        try:
            token = guide.waiting.popleft()
            self._push(request, token, self._logprob(request, logits, token), logits, forced=True)
        except Exception as exc:
            self._fail(request, exc)
        return False

    def _is_prepared(self, request: Request, logits: torch.Tensor) -> bool:
        """Whether an id may be sampled now. It is sampled later, where what may follow is not
        known by now."""
        is_prepared = is_late = False

        def work(seconds: float) -> None:
            nonlocal is_prepared
            if self._pause(request, seconds) or not self._prepare(request, seconds):
                return
            is_prepared = True
            if is_late:
                self._late.append((request, kept))

        self._slices.do([request], work)
        if request.aside:
            is_late, kept = True, logits.clone()
        return is_prepared

    def _prepare(self, request: Request, seconds: float) -> bool:
        """Find out what may follow; where nothing may, the gen has ended."""
        row, watcher, guide = request.row, request.watcher, request.guide
        assert row is not None
        assert watcher is not None
        assert guide is not None
        with guide.matcher.bounded(seconds):
            found = row.prepare()
        if found:
            return True
        if not guide.matcher.end_allowed:
            raise ConstraintError(
                "no token of the model's vocabulary can go on with the text", kind="unsatisfiable"
            )
        watcher.complete()
        self._ended(request)
        return False

    def _sample(self, requests: Sequence[Request], logits: torch.Tensor) -> None:
        rows = [r.row for r in requests if r.row is not None]
        sampled = sample(logits, rows)
        for i, (request, token) in enumerate(zip(requests, sampled.ids, strict=True)):
            if token == NO_TOKEN:
                self._fail(request, _no_token(rows[i]))
                continue
            found, by = sampled.logprobs.get(i), sampled.logits.get(i)
            try:
                self._take(request, token, found, None if by is None else by[None])
            except Exception as exc:
                self._fail(request, exc)

    def _take(
        self,
        request: Request,
        token: int,
        found: TokenLogprobs | None,
        logits: torch.Tensor | None,
    ) -> None:
        assert request.row is not None
        if request.guide is None or token in request.row.end_ids:
            self._push(request, token, found, logits)
        else:
            request.guide.take(token)
            self._slices.do([request], partial(self._take_on, request, found, logits, None))

    def _take_on(
        self,
        request: Request,
        found: TokenLogprobs | None,
        logits: torch.Tensor | None,
        then: Work | None,
        seconds: float,
    ) -> Work:
        """Go on with what the last token leads to."""
        assert request.guide is not None
        self._apply(request, request.guide.follow(seconds), found, logits)
        return partial(self._pause_before, request, then)

    def _pause_before(self, request: Request, then: Work | None, seconds: float) -> Work | None:
        self._pause(request, seconds)
        return then

    def _apply(
        self,
        request: Request,
        change: Change,
        found: TokenLogprobs | None,
        logits: torch.Tensor | None,
    ) -> None:
        """Bring the ids to what a change says.

        Args:
            found, logits: of the id that was sampled: its log-probability, and what it comes
                from.
        """
        if change.rollback:
            logits = self._take_back(request, change.rollback)
        for place, token in enumerate(change.ids):
            forced = place != change.sampled
            if place > 0:
                logits = None
            if forced:
                found = self._logprob(request, logits, token)
            last = place == len(change.ids) - 1
            if self._push(request, token, found, logits, forced, last):
                return
        guide, watcher = request.guide, request.watcher
        assert guide is not None
        assert watcher is not None
        if not change.ids and not guide.waiting and guide.is_final:  # the empty text
            watcher.complete()
            self._ended(request)

    def _pause(self, request: Request, seconds: float) -> bool:
        """End a sample that goes on in another request, where it is to; its ids count there."""
        guide, watcher = request.guide, request.watcher
        assert guide is not None
        assert watcher is not None
        if watcher.finish_reason is not None or not guide.is_paused(seconds):
            return False
        self._metrics.completion_tokens -= len(request.output)
        watcher.pause()
        self._ended(request)
        return True

    def _logprob(
        self, request: Request, logits: torch.Tensor | None, token: int
    ) -> TokenLogprobs | None:
        assert request.row is not None
        if logits is None or not request.row.wants_logprobs:
            return None
        return token_logprobs(logits, [token], [request.row.params.top_logprobs])[0]

    def _push(
        self,
        request: Request,
        token: int,
        found: TokenLogprobs | None,
        logits: torch.Tensor | None,
        forced: bool = False,
        last: bool = True,
    ) -> bool:
        """Go on with `token`; True when the gen ends with it. `last`: no other id follows now."""
        row, watcher, guide = request.row, request.watcher, request.guide
        assert row is not None
        assert watcher is not None
        row.advance(token)
        request.push(token)
        self._metrics.completion_tokens += 1
        completes = False
        if guide is not None:
            request.forced.append(forced)
            completes = last and not guide.waiting and guide.is_final
        if row.wants_logprobs:
            request.logprobs.append(None)
            if found is not None:
                own = logits[0].clone() if guide is not None and logits is not None else None
                request.record(request.num_tokens - 1, found, own)
        ends = watcher.push(token, completes)
        if guide is not None:
            row.num_healed = watcher.num_healed
        if ends:
            self._ended(request)
        return ends

    def _take_back(self, request: Request, count: int) -> torch.Tensor | None:
        row, watcher = request.row, request.watcher
        assert row is not None
        assert watcher is not None
        row.take_back(request.tokens[request.num_tokens - count : request.num_tokens].tolist())
        watcher.take_back(count)
        self._metrics.completion_tokens -= count
        logits = request.take_back(count)
        self._scheduler.cut(request)
        return None if logits is None else logits[None]

    def _ended(self, request: Request) -> None:
        if request.first_unrecorded < request.num_tokens:
            request.closing = True
        else:
            self._end(request)


def _no_token(row: SamplingRow) -> BackendError:
    if row.rule is not None:
        return BackendError(
            "no token can be chosen: the model's logits are not numbers, or logit_bias, min_tokens "
            "or healing rules out every id that the constraint allows"
        )
    held = ", or min_tokens holds back every id" if row.held_back_now else ""
    return BackendError(f"no token can be chosen: the model's logits are not numbers{held}")
