"""The engine without its thread: schedule, forward, sample, results.

With overlap a step is two at once: the forward of one begins, then the results of the one before
are taken, by which the ids of the new one are chosen. So the device has work while the host reads
ids, follows constraints and plans, and waits for nothing but ids. Results are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from time import perf_counter

import torch

from sgc_ir.errors import BackendError, ConstraintError, SgcError
from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.completeness import is_complete
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.lookahead import Lookahead
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.prefill_ahead import AheadJob
from sgc_runtime.engine.profile import NO_PROFILE, Profiling
from sgc_runtime.engine.prompt_trie import PromptTrie
from sgc_runtime.engine.request import Outcome, Request, State
from sgc_runtime.engine.runner import Flight, Launched, Results, Runner
from sgc_runtime.engine.samples import Samples
from sgc_runtime.engine.scheduler import Chunk, Scheduler
from sgc_runtime.engine.step_input import Positions


@dataclass(slots=True)
class _InFlight:
    """A step whose results are to come.

    Attributes:
        marks: of each request of the step, its `Request.flight`: where that is another one now, the
            results are not wanted any more.
    """

    flight: Flight
    chunks: Sequence[Chunk]
    rows: Sequence[Request]
    recording: Sequence[Positions]
    scoring: Sequence[Positions]
    marks: dict[Request, int]

    def is_wanted(self, request: Request) -> bool:
        return request.flight == self.marks[request]


class EngineCore:
    """One scheduler over one KV pool. Everything here runs in one thread.

    A failure in a step fails the requests of that step; the others go on.

    Attributes:
        open: requests that have been added and not been answered or cancelled.
    """

    def __init__(
        self, runner: Runner, config: EngineConfig, profile: Profiling = NO_PROFILE
    ) -> None:
        self.runner, self.profile = runner, profile
        self.cache = PrefixCache(config.kv_tokens, config.cache, config.cache_tree)
        self.metrics = Metrics()
        self.trie = PromptTrie(config.stats_tokens)
        self.open: set[Request] = set()
        self.scheduler = Scheduler(
            self.cache,
            config,
            self.metrics,
            runner.forget,
            self._count_prompt,
            self._uncount_prompt,
        )
        self._samples = Samples(
            runner,
            self.scheduler,
            self.metrics,
            self._end_generation,
            self._fail_in_step,
            self._queue,
        )
        self._overlap = config.overlap
        self._lookahead = Lookahead()
        self._in_flight: _InFlight | None = None

    @property
    def rests(self) -> bool:
        """Whether nothing is in flight, nor stands aside."""
        scheduler = self.scheduler
        if self._in_flight is not None or scheduler.prefilling or scheduler.running:
            return False
        return not self._samples.num_aside

    def add(self, *requests: Request) -> None:
        """Queue the requests of one call; if one can never fit, all are answered at once."""
        self.open.update(requests)
        self._samples.begin(requests)

    def compute_ahead(self, job: AheadJob) -> None:
        """Compute a beginning of a prompt, whenever nothing else is to be done."""
        self.scheduler.admission.ahead.add(job)

    def _queue(self, requests: Sequence[Request]) -> None:
        reason = next(filter(None, map(self.scheduler.too_large, requests)), None)
        if reason is not None:
            for request in requests:
                self._fail(request, BackendError(reason))
            return
        for request in requests:
            if request.state is State.DONE:  # without a step
                self._count_prompt(request)
            else:
                self.scheduler.add(request)

    def _count_prompt(self, request: Request) -> None:
        if request.call_prompt:
            request.covered = self.trie.add_prompt(request.tokens[: request.call_prompt].copy())

    def _uncount_prompt(self, request: Request) -> None:
        if request.covered is not None:
            self.trie.take_back(request.tokens[: request.call_prompt], request.covered)
            request.covered = None

    def cancel(self, request: Request) -> None:
        """Drop a request of a call that gives no result; its slots are free at once and `on_done`
        is not called."""
        self.open.discard(request)
        self._uncount_prompt(request)
        computed = min(max(request.num_computed, request.num_lost), request.num_linear)
        self.trie.add_made(request.tokens[:computed].copy(), 0)  # others may find it all the same
        if request.state is not State.DONE:
            self.scheduler.drop(request)

    def step(self) -> bool:
        """Do one step; False when there is nothing to do."""
        with torch.inference_mode():
            return self._step()

    def close(self) -> None:
        """Wait for what is in flight. Nothing is called after it; open requests stay open."""
        self._in_flight = None
        self.runner.close()

    def _step(self) -> bool:
        begin, waited = perf_counter(), 0.0
        before, self._in_flight = self._in_flight, None
        early = self._lookahead.pays
        if before is not None and not early:
            waited = self._take_results(before)
        self._go_on()
        with self.profile.span("schedule"):
            chunks = self.scheduler.plan()
        launched, error = self._launch(chunks) if chunks else (None, None)
        if before is not None and early:
            waited = self._take_results(before)
        gap = perf_counter() - begin - waited
        if error is not None:
            self._fail_chunks(chunks, error)
            error = None  # it holds this frame
        late = self._samples.take_late()
        if launched is not None:
            self._in_flight = self._sample(chunks, launched)
        if not self._overlap:
            self._take_at_once()
        elif launched is not None and before is not None:
            whole = perf_counter() - begin
            self._lookahead.see_times(gap, whole if early else whole - gap)
        if chunks or before is not None or late:
            return True
        assert self.scheduler.idle or self._samples.num_aside, "requests wait and none can run"
        return self._samples.num_aside > 0

    def _take_at_once(self) -> None:
        step, self._in_flight = self._in_flight, None
        if step is not None:
            self._take_results(step)

    def _go_on(self) -> None:
        with self.profile.span("masks"):
            self._samples.go_on()
        if not self._overlap:
            self._samples.take_late()

    def _launch(self, chunks: Sequence[Chunk]) -> tuple[Launched | None, Exception | None]:
        try:
            launched = self.runner.launch(chunks)
        except Exception as exc:
            # At once: results of the step before may lead to where prompts of this one are shared.
            self._fail_chunks([c for c in chunks if c.request.state is State.PREFILLING], exc)
            self.scheduler.not_computed()
            return None, exc
        with self.profile.span("schedule"):
            for chunk in chunks:
                self.scheduler.computed(chunk)  # what fails here fails the engine: locks are moved
        return launched, None

    def _sample(self, chunks: Sequence[Chunk], launched: Launched) -> _InFlight | None:
        """Begin to choose the next ids; None where that has failed."""
        try:
            with self.profile.span("masks"):
                ends = {request: end for request, _, end in chunks}
                rows, forced = self._samples.ready(launched, ends)
            recording = [p for p in launched.recording if _is_in_flight(p[0])] + forced
            scoring = [p for p in launched.scoring if _is_in_flight(p[0])]
            flight = self.runner.sample(launched, rows, recording, scoring)
        except Exception as exc:
            self._fail_chunks(chunks, exc)
            return None
        marks = {request: request.flight for request, _, _ in chunks}
        for request in rows:
            request.pending = 1
        return _InFlight(flight, chunks, rows, recording, scoring, marks)

    def _fail_chunks(self, chunks: Sequence[Chunk], error: Exception) -> None:
        for chunk in chunks:
            self._fail(chunk.request, _step_error(error))

    # -- results ------------------------------------------------------------------------------

    def _take_results(self, step: _InFlight) -> float:
        """Wait for them and follow what comes of them; how long it waited, in seconds."""
        begin = perf_counter()
        waited = 0.0
        try:
            with self.profile.span("wait"):
                results = step.flight.result()
            waited = perf_counter() - begin
            with self.profile.span("output"):
                self._follow(step, results)
        except Exception as exc:
            self._fail_step(step, exc)
        return waited

    def _follow(self, step: _InFlight, results: Results) -> None:
        for position, found in zip(step.recording, results.recorded, strict=True):
            if step.is_wanted(position[0]):
                self._samples.record(position, found)
                self._close(position)
        rows, marks = step.rows, step.marks
        places = [i for i, r in enumerate(rows) if r.flight == marks[r]]
        turned = self._samples.take(step.flight, results, rows, places)
        self._lookahead.see_rows(turned, len(places))
        for (request, _, last), scores in zip(step.scoring, results.scores, strict=True):
            if step.is_wanted(request):
                self._take_scores(request, last, scores)

    def _fail_step(self, step: _InFlight, error: Exception) -> None:
        for request, _, _ in step.chunks:
            if step.is_wanted(request):
                self._fail(request, _step_error(error))

    def _close(self, position: Positions) -> None:
        """End a gen that lacked nothing but log-probabilities."""
        request, _, last = position
        if request.closing and last == request.num_target:
            self._end_generation(request)

    def _end_generation(self, request: Request) -> None:
        assert request.watcher is not None
        try:
            complete = is_complete(request)
        except ConstraintError as exc:
            self._fail(request, exc)
            return
        kept = request.num_prompt + request.watcher.num_kept_output
        made = min(kept, request.num_computed)  # not the last token's KV, nor that of forced ones
        if made > request.num_prompt:
            self.trie.add_made(request.tokens[:made].copy(), request.num_prompt)
        self._end(request, made, complete)

    def _take_scores(self, request: Request, last: int, found: Sequence[float]) -> None:
        try:
            self._push_scores(request, last, found)
        except Exception as exc:
            self._fail(request, _step_error(exc))

    def _push_scores(self, request: Request, last: int, found: Sequence[float]) -> None:
        scoring = request.scoring
        assert scoring is not None
        if isnan(sum(found)):
            self._fail(request, BackendError("the model's logits are not numbers"))
            return
        scoring.logprobs += found
        if last == request.num_target:
            # The other choices never get into the tree.
            kept = request.choose_path(scoring.trie.computed(scoring.choose(scoring.logprobs)))
            self.trie.add_made(request.tokens[:kept].copy(), request.num_linear)
            self._end(request, kept)

    def _end(self, request: Request, num_kept: int, complete: bool = True) -> None:
        request.times.end()
        self.scheduler.drop(request, num_kept)
        self.open.discard(request)
        outcome = Outcome(request.anchor, request.cached_tokens or 0, complete=complete)
        request.on_done(request, outcome)

    def _fail_in_step(self, request: Request, error: Exception) -> None:
        self._fail(request, _step_error(error))

    def _fail(self, request: Request, error: Exception) -> None:
        if request.state is State.DONE:
            return
        self._uncount_prompt(request)
        self.scheduler.drop(request)
        self.open.discard(request)
        request.on_done(request, Outcome(error=error))


def _is_in_flight(request: Request) -> bool:
    return request.state in (State.PREFILLING, State.RUNNING)


def _step_error(exc: Exception) -> SgcError:
    return exc if isinstance(exc, SgcError) else broken("the engine's step failed", exc)


def broken(what: str, exc: Exception) -> BackendError:
    """What calls are told of an error that nobody expected: one line, the error as its cause."""
    error = BackendError(f"{what}: {type(exc).__name__}: {' '.join(str(exc).split())}")
    error.__cause__ = exc
    return error
