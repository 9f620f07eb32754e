"""The next ids of generations: sampled, forced by a constraint, taken back.

With overlap an id becomes known when the next step, which computes it, has begun. Where it turns
out to be another one, or others come in its place, that step was in vain for its request: what is
computed stays what it was, and the right ids are computed as known ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from sgc_ir.errors import ConstraintError
from sgc_runtime.engine.guide import Change
from sgc_runtime.engine.late_rows import LateRows
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.refusals import accepted_ids
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Flight, Launched, Results, Runner
from sgc_runtime.engine.sampled import is_computed, no_token
from sgc_runtime.engine.scheduler import Scheduler
from sgc_runtime.engine.slices import Slices, Work
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.sampling.row import TokenLogprobs
from sgc_runtime.sampling.sampler import NO_TOKEN


class Samples:
    """Chooses ids and follows what comes of them. A failure fails the request that it is of.

    Args:
        end: called with a request whose gen has ended and has all that was asked for.
        fail: called with a request and what is wrong with it.
        queue: called with the requests of a call that have begun.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        metrics: Metrics,
        end: Callable[[Request], None],
        fail: Callable[[Request, Exception], None],
        queue: Callable[[Sequence[Request]], None],
    ) -> None:
        self._runner, self._scheduler, self._metrics = runner, scheduler, metrics
        self._end, self._fail, self._queue = end, fail, queue
        self._slices = Slices(metrics, fail)
        self._begun: list[Sequence[Request]] = []
        self._late = LateRows(runner, fail)
        self._num_turned = 0

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
        self._slices.begin()
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
        return partial(self._take_on, request, None, then)

    def _queue_begun(self) -> None:
        begun, self._begun = self._begun, []
        for requests in begun:
            self._queue(requests)

    def go_on(self) -> None:
        """Begin a step, before anything is launched: go on with those that stand aside, and choose
        for those that need not any more; `take_late` takes what comes of it."""
        self._slices.go_on()
        self._queue_begun()
        self._late.begin()

    def take_late(self) -> bool:
        """Go on with those that have stood aside and need not any more; all results of steps
        before have been taken. False where there is none."""
        late = self._late.take()
        if late is None:
            return False
        places = late.places
        try:
            self.take(late.flight, late.flight.result(), late.rows, places)
        except Exception as exc:
            for i in places:
                self._fail(late.rows[i], exc)
        return True

    def ready(
        self, launched: Launched, ends: Mapping[Request, int]
    ) -> tuple[list[Request], list[Positions]]:
        """Those whose next id can be sampled now, by what all steps before have given; and
        positions whose next ids are known by now and lack log-probabilities.

        Args:
            ends: of each request that is launched, how many tokens are computed with it.
        """
        rows, forced = [], list[Positions]()
        self._slices.begin()
        for request in launched.sampling:
            end = ends[request]
            if request.state is not State.RUNNING or not is_computed(request, end):
                continue
            if request.guide is None:
                rows.append(request)
            elif request.num_tokens == end and self._samples(request, launched):
                rows.append(request)
            elif request.state is State.RUNNING and request.num_tokens > end:
                assert request.row is not None
                if request.row.wants_logprobs:
                    forced.append((request, end - 1, end))
        return rows, forced

    def take(
        self, flight: Flight, results: Results, rows: Sequence[Request], places: Sequence[int]
    ) -> int:
        """Go on with the ids of a flight; of how many rows not just the sampled id stands there
        now.

        Args:
            rows: what was sampled; `places`: those of them that are still in flight.
        """
        self._num_turned = 0
        ids, logprobs = results.ids, results.logprobs
        others = accepted_ids(self._runner, flight, results, rows, places, self._fail)
        self._slices.begin()
        for i in places:
            request, token = rows[i], ids[i]
            request.pending = 0
            request.times.prefill()
            if request.state is State.DONE:
                continue
            try:
                if token == NO_TOKEN:
                    raise no_token(request)
                if request.guide is None:
                    self._push(request, token, logprobs.get(i))
                    continue
                found = logprobs.get(i)
                if i in others:
                    token, request.ahead, found = others[i], 0, None
                self._take(request, token, results.shares[i], found)
            except Exception as exc:
                self._fail(request, exc)
        return self._num_turned + len(others)

    def record(self, position: Positions, found: Sequence[TokenLogprobs]) -> None:
        """Note log-probabilities of ids that were not just sampled: they were forced, or came in
        the place of others.

        Args:
            position: a request, with the positions `[first, last)` behind which they stand.
        """
        request, first, _ = position
        for i, one in enumerate(found):
            request.record(first + 1 + i, one)

    # -- below --------------------------------------------------------------------------------

    def _samples(self, request: Request, launched: Launched) -> bool:
        """Whether an id is to be sampled now; one that is forced is taken here."""
        guide = request.guide
        assert guide is not None
        if not guide.waiting:
            return self._is_prepared(request, launched)
        try:
            self._push(request, guide.waiting.popleft(), forced=True)
        except Exception as exc:
            self._fail(request, exc)
        return False

    def _is_prepared(self, request: Request, launched: Launched) -> bool:
        """Whether an id may be sampled now. It is sampled later, where what may follow is not
        known by now."""
        guide = request.guide
        assert guide is not None
        try:
            words = None if guide.may_pause else guide.matcher.known_mask()
            if words is not None:
                return self._is_open(request, words)
        except Exception as exc:
            self._fail(request, exc)
            return False
        self._slices.begin()
        is_prepared = is_late = False

        def work(seconds: float) -> None:
            nonlocal is_prepared
            if self._pause(request, seconds) or not self._prepare(request, seconds):
                return
            is_prepared = True
            if is_late:
                self._late.add(request, kept)

        self._slices.do([request], work)
        if request.aside:
            is_late, kept = True, launched.kept_logits(request)
        return is_prepared

    def _prepare(self, request: Request, seconds: float) -> bool:
        """Find out what may follow; where nothing may, the gen has ended."""
        assert request.guide is not None
        matcher = request.guide.matcher
        with matcher.bounded(seconds):
            words = matcher.mask()
        return self._is_open(request, words)

    def _is_open(self, request: Request, words: npt.NDArray[np.int32]) -> bool:
        """Whether something may follow, by the constraint's mask; else the gen has ended."""
        row, watcher = request.row, request.watcher
        assert row is not None
        assert watcher is not None
        if row.prepare(words):
            return True
        if row.rule is None or not row.rule.end_allowed:
            raise ConstraintError(
                "no token of the model's vocabulary can go on with the text", kind="unsatisfiable"
            )
        watcher.complete()
        self._ended(request)
        return False

    def _take(
        self, request: Request, token: int, share: float, found: TokenLogprobs | None
    ) -> None:
        row, guide = request.row, request.guide
        assert row is not None
        assert guide is not None
        row.weigh(share)
        if token in row.end_ids:
            self._push_next(request, token, found)
            return
        change = guide.advance(token)
        if change is not None:  # mostly
            self._apply(request, change, found)
        else:
            self._slices.begin()  # not its time: what has come of the rows before
            self._slices.do([request], partial(self._take_on, request, found, None))

    def _take_on(
        self,
        request: Request,
        found: TokenLogprobs | None,
        then: Work | None,
        seconds: float,
    ) -> Work | None:
        """Go on with what the last token leads to."""
        guide = request.guide
        assert guide is not None
        self._apply(request, guide.follow(seconds), found)
        return partial(self._pause_before, request, then) if guide.may_pause else then

    def _pause_before(self, request: Request, then: Work | None, seconds: float) -> Work | None:
        self._pause(request, seconds)
        return then

    def _apply(self, request: Request, change: Change, found: TokenLogprobs | None) -> None:
        """Bring the ids to what a change says.

        Args:
            found: the log-probability of the id that was sampled, as far as it is known.
        """
        stays = change.rollback == 0 == change.sampled
        if not stays:
            request.ahead = 0
        self._num_turned += not stays or len(change.ids) > 1
        if change.rollback:
            self._take_back(request, change.rollback)
        assert request.row is not None
        if change.ids and not request.row.wants_logprobs:
            self._push_all(request, change.ids, change.sampled)
            return
        for place, token in enumerate(change.ids):
            forced = place != change.sampled
            own, last = None if forced else found, place == len(change.ids) - 1
            push = self._push if place else self._push_next
            if push(request, token, own, forced, last):
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

    def _push_next(
        self,
        request: Request,
        token: int,
        found: TokenLogprobs | None,
        forced: bool = False,
        last: bool = True,
    ) -> bool:
        """`_push` behind the last token that is computed. That one is computed once more, with the
        next chunk, where this id is another one than was sampled and its log-probability is asked
        for: so no logits are kept, which are large."""
        row = request.row
        assert row is not None
        if found is None and row.wants_logprobs and request.state is State.RUNNING:
            self._scheduler.cut(request, request.num_tokens - 1)
        return self._push(request, token, found, forced, last)

    def _push(
        self,
        request: Request,
        token: int,
        found: TokenLogprobs | None = None,
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
                request.record(request.num_tokens - 1, found)
        ends = watcher.push(token, completes)
        if guide is not None:
            row.num_healed = watcher.num_healed
        if ends:
            self._ended(request)
        return ends

    def _push_all(self, request: Request, tokens: Sequence[int], sampled: int) -> None:
        """`_push` of the ids of one change, whose log-probabilities nobody asks for."""
        row, watcher, guide = request.row, request.watcher, request.guide
        assert row is not None
        assert watcher is not None
        assert guide is not None
        completes = not guide.waiting and guide.is_final
        count = watcher.push_all(tokens, completes)
        tokens = tokens[:count]
        row.advance_all(tokens)
        row.num_healed = watcher.num_healed
        forced = [True] * count
        if 0 <= sampled < count:
            forced[sampled] = False
        request.push_all(tokens, forced)
        self._metrics.completion_tokens += count
        if watcher.finish_reason is not None:
            self._ended(request)

    def _take_back(self, request: Request, count: int) -> None:
        row, watcher = request.row, request.watcher
        assert row is not None
        assert watcher is not None
        row.take_back(request.tokens[request.num_tokens - count : request.num_tokens].tolist())
        watcher.take_back(count)
        self._metrics.completion_tokens -= count
        request.take_back(count)
        self._scheduler.cut(request, request.num_tokens)

    def _ended(self, request: Request) -> None:
        if request.first_unrecorded < request.num_tokens:
            request.closing = True
        else:
            self._end(request)
