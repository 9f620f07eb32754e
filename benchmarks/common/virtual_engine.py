"""The engine's own scheduler, queue and tree in virtual time: what a step takes is a formula.

Runs of thousands of calls are exact and repeatable, take seconds, and are free of the machine's
noise; what they leave out is everything but scheduling and memory.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import SimpleNamespace

import numpy as np

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.request import Outcome, Prefix, Request
from sgc_runtime.engine.scheduler import Chunk, Scheduler


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a step: a constant, and a share for each prompt token and each running gen."""

    step: float
    prompt_token: float
    gen: float

    def seconds(self, chunks: Sequence[Chunk]) -> float:
        gens = sum(map(decodes, chunks))
        prompts = sum(c.end - c.start for c in chunks) - gens
        return self.step + self.prompt_token * prompts + self.gen * gens


@dataclass(frozen=True, slots=True)
class Ask:
    """One model call of a program.

    Attributes:
        prompt: ids.
        max_tokens: what the program allows.
        length: how many come.
        more: tokens that calls to come of the instance may generate; None: unknown.
        prefix: soft hold of the stream.
    """

    prompt: list[int]
    max_tokens: int
    length: int
    more: int | None = None
    prefix: Prefix | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """Prompt and generated ids of a call, and the hold on their KV."""

    ids: list[int]
    prefix: Prefix | None


# Yields the calls that it issues together, and gets their replies.
Instance = Generator[list[Ask], list[Reply], None]


@dataclass(slots=True)
class Figures:
    """What a run gave: virtual seconds (`completion_s`: one entry an instance), and tokens.

    `computed_tokens` are those of prompts, outputs of retracted gens among them.
    """

    makespan_s: float = 0.0
    completion_s: list[float] = field(default_factory=list)
    steps: int = 0
    prompt_tokens: int = 0
    computed_tokens: int = 0
    retractions: int = 0


@dataclass(slots=True)
class _Wait:
    """Calls that an instance waits for; None where the reply is still to come."""

    instance: Instance
    number: int
    replies: list[Reply | None]


class VirtualEngine:
    """Runs program instances, at most `parallel` at once, as `sgc run` does.

    A reply reaches its program when the next step has begun, so what it asks next is there for
    the step after that one, as beside a real model.

    Args:
        config: of the scheduler; see `EngineConfig`.
    """

    def __init__(self, cost: StepCost, parallel: int, config: EngineConfig) -> None:
        self._cache = PrefixCache(config.kv_tokens, config.cache)
        self._metrics = Metrics()
        self.scheduler = Scheduler(self._cache, config, self._metrics)
        self._cost, self._parallel = cost, parallel
        self._rng = random.Random(0)
        self._now = 0.0
        self._left: Iterator[tuple[int, Instance]] = iter(())
        self._calls: dict[Request, tuple[Ask, _Wait, int]] = {}
        self._coming: list[tuple[float, int, _Wait, list[Ask]]] = []
        self._asked = 0
        self._figures = Figures()

    def run(self, instances: Sequence[Instance]) -> Figures:
        """All of them; they are there at time 0."""
        self._left = iter(enumerate(instances))
        for number, instance in islice(self._left, self._parallel):
            self._begin(number, instance)
        while self._coming or not self.scheduler.idle:
            if self.scheduler.idle:
                self._now = max(self._now, self._coming[0][0])
            while self._coming and self._coming[0][0] <= self._now:
                _, _, wait, asks = heapq.heappop(self._coming)
                self._submit(wait, asks)
            self._step()
        self._figures.makespan_s = self._now
        self._figures.retractions = self._metrics.retractions
        return self._figures

    # -- programs -----------------------------------------------------------------------------

    def _begin(self, number: int, instance: Instance) -> None:
        self._come(number, instance, next(instance), self._now)

    def _go_on(self, wait: _Wait, now: float) -> None:
        try:
            asks = wait.instance.send([reply for reply in wait.replies if reply is not None])
        except StopIteration:
            self._figures.completion_s.append(now)
            for number, instance in islice(self._left, 1):
                self._begin(number, instance)
            return
        self._come(wait.number, wait.instance, asks, now)

    def _come(self, number: int, instance: Instance, asks: list[Ask], when: float) -> None:
        wait = _Wait(instance, number, [None] * len(asks))
        self._asked += 1
        heapq.heappush(self._coming, (when, self._asked, wait, asks))

    # -- the engine ---------------------------------------------------------------------------

    def _submit(self, wait: _Wait, asks: list[Ask]) -> None:
        for index, ask in enumerate(asks):
            request = Request(
                np.array(ask.prompt, np.int32),
                on_done=_ignore,
                row=SimpleNamespace(max_new=ask.max_tokens),  # type: ignore[arg-type]
                prefix=ask.prefix,
                instance=wait.number,
                more_tokens=ask.more,
            )
            self._calls[request] = (ask, wait, index)
            self._figures.prompt_tokens += len(ask.prompt)
            self.scheduler.add(request)

    def _step(self) -> None:
        chunks = self.scheduler.plan()
        assert chunks, "requests wait and none can run"
        seconds = self._cost.seconds(chunks)
        self._now += seconds
        self._figures.steps += 1
        self._figures.computed_tokens += sum(c.end - c.start for c in chunks if not decodes(c))
        for chunk in chunks:
            self.scheduler.computed(chunk)
        for chunk in chunks:
            if chunk.end == chunk.request.num_target:
                self._sample(chunk.request, self._now + 0.01 * seconds)

    def _sample(self, request: Request, delivered: float) -> None:
        ask, wait, index = self._calls[request]
        request.push(self._rng.randrange(1_000, 50_000))
        if len(request.output) < ask.length:
            return
        self.scheduler.drop(request, request.num_tokens - 1)
        del self._calls[request]
        hold = Prefix(request.anchor, request.anchor.end) if request.anchor is not None else None
        wait.replies[index] = Reply(request.tokens[: request.num_tokens].tolist(), hold)
        if None not in wait.replies:
            self._go_on(wait, delivered)


def decodes(chunk: Chunk) -> bool:
    """Whether it is one token of a running gen."""
    return chunk.request.num_tokens > chunk.request.num_prompt and chunk.end - chunk.start == 1


def _ignore(request: Request, outcome: Outcome) -> None:
    """The engine above answers by itself."""
