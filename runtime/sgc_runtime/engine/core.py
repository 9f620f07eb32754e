"""The engine without its thread: schedule, forward, sample, results."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import isnan
from typing import Protocol

import numpy as np
import torch

from sgc_ir.errors import BackendError, ConstraintError, SgcError
from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.completeness import is_complete
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.prompt_trie import PromptTrie
from sgc_runtime.engine.request import Outcome, Request, State
from sgc_runtime.engine.samples import Samples
from sgc_runtime.engine.scheduler import Chunk, Scheduler
from sgc_runtime.engine.step_input import Positions, StepInput, StepInputs
from sgc_runtime.model.forward import ForwardBatch, KVTensors
from sgc_runtime.sampling.logprobs import next_token_logprobs


class Model(Protocol):
    """Computes one step and writes its keys and values."""

    def forward(self, batch: ForwardBatch, kv: KVTensors) -> torch.Tensor:
        """Logits `[len(batch.logit_rows), vocab]` float32."""
        ...


class EngineCore:
    """One scheduler over one KV pool. Everything here runs in one thread.

    A failure in a step fails the requests of that step; the others go on.

    Attributes:
        open: requests that have been added and not been answered or cancelled.
    """

    def __init__(
        self,
        model: Model,
        kv: KVTensors,
        config: EngineConfig,
        device: torch.device | None = None,
    ) -> None:
        self._model, self._kv = model, kv
        self.step_inputs = StepInputs(device if device is not None else torch.device("cpu"))
        self.cache = PrefixCache(config.kv_tokens, config.cache)
        self.metrics = Metrics()
        self.trie = PromptTrie(config.stats_tokens)
        self.open: set[Request] = set()
        self.scheduler = Scheduler(self.cache, config, self.metrics)
        self._samples = Samples(
            self.scheduler, self.metrics, self._end_generation, self._fail_in_step, self._queue
        )

    def add(self, *requests: Request) -> None:
        """Queue the requests of one call; if one can never fit, all are answered at once."""
        self.open.update(requests)
        self._samples.begin(requests)

    def _queue(self, requests: Sequence[Request]) -> None:
        reason = next(filter(None, map(self.scheduler.too_large, requests)), None)
        if reason is not None:
            for request in requests:
                self._fail(request, BackendError(reason))
            return
        for request in requests:
            if request.call_prompt:
                prompt = request.tokens[: request.call_prompt].copy()
                request.covered = self.trie.add_prompt(prompt)
            if request.state is not State.DONE:
                self.scheduler.add(request)

    def cancel(self, request: Request) -> None:
        """Drop a request of a call that gives no result; its slots are free at once and `on_done`
        is not called."""
        self.open.discard(request)
        if request.covered is not None:
            self.trie.take_back(request.tokens[: request.call_prompt], request.covered)
            request.covered = None
        if request.state is not State.DONE:
            self.scheduler.drop(request)

    def step(self) -> bool:
        """Do one step; False when there is nothing to do."""
        with torch.inference_mode():
            self._samples.go_on()
        chunks = self.scheduler.plan()
        if not chunks:
            assert self.scheduler.idle or self._samples.num_aside, "requests wait and none can run"
            return self._samples.num_aside > 0
        with torch.inference_mode():
            try:
                work = self.step_inputs.make(chunks)
                logits = self._model.forward(work.batch, self._kv)
            except Exception as exc:
                self._fail_chunks(chunks, exc)
                return True
            for chunk in chunks:
                self.scheduler.computed(chunk)  # what fails here fails the engine: locks are moved
            try:
                self._take_results(work, logits)
            except Exception as exc:
                self._fail_chunks(chunks, exc)
        return True

    def _fail_chunks(self, chunks: Sequence[Chunk], error: Exception) -> None:
        for chunk in chunks:
            self._fail(chunk.request, _step_error(error))

    # -- results ------------------------------------------------------------------------------

    def _take_results(self, work: StepInput, logits: torch.Tensor) -> None:
        num_sampling = len(work.sampling)
        num_recording = sum(last - first for _, first, last in work.recording)
        others = logits[num_sampling:]
        if work.recording:
            self._samples.record(work.recording, others[:num_recording])
            self._close(work.recording)
        if num_sampling:
            self._samples.take(work.sampling, logits[:num_sampling])
        if work.scoring:
            self._take_scores(work.scoring, others[num_recording:])

    def _close(self, recording: Sequence[Positions]) -> None:
        """End the gens that lacked nothing but log-probabilities."""
        for request, _, last in recording:
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

    def _take_scores(
        self, scoring: Sequence[tuple[Request, int, int]], logits: torch.Tensor
    ) -> None:
        rows, ids, counts, first_row = [], [], [], 0
        for request, first, last in scoring:
            assert request.scoring is not None
            at, targets = request.scoring.trie.edges(first, last)
            rows.append(at + first_row)
            ids.append(targets)
            counts.append(len(targets))
            first_row += last - first
        found = iter(next_token_logprobs(logits, np.concatenate(rows), np.concatenate(ids)))
        for (request, _, last), count in zip(scoring, counts, strict=True):
            try:
                self._push_scores(request, last, list(islice(found, count)))
            except Exception as exc:
                self._fail(request, _step_error(exc))

    def _push_scores(self, request: Request, last: int, found: list[float]) -> None:
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
        self.scheduler.drop(request)
        self.open.discard(request)
        request.on_done(request, Outcome(error=error))


def _step_error(exc: Exception) -> SgcError:
    return exc if isinstance(exc, SgcError) else broken("the engine's step failed", exc)


def broken(what: str, exc: Exception) -> BackendError:
    """What calls are told of an error that nobody expected: one line, the error as its cause."""
    error = BackendError(f"{what}: {type(exc).__name__}: {' '.join(str(exc).split())}")
    error.__cause__ = exc
    return error
