"""A scheduler over a simulated pool: no tensors, so that many thousand steps take seconds.

Each slot holds a number that stands for the whole prefix whose KV was written there; the next
token is a function of it. So KV that is wrong, stale or not yet written shows in the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.prompt_trie import PromptTrie
from sgc_runtime.engine.request import Outcome, Prefix, Region, Request, State
from sgc_runtime.engine.scheduler import Scheduler

VOCAB = 50
_MOD = (1 << 61) - 1


def prefix_number(before: int, token: int) -> int:
    """The number of a prefix that is `token` longer than the one with the number `before`."""
    return (before * 1_000_003 + token + 1) % _MOD


def next_token(number: int) -> int:
    return 2 + number % (VOCAB - 2)


def plain_output(prompt: Sequence[int], max_new: int) -> list[int]:
    """What a plain loop generates."""
    number, out = 0, []
    for token in prompt:
        number = prefix_number(number, int(token))
    for _ in range(max_new):
        out.append(next_token(number))
        number = prefix_number(number, out[-1])
    return out


def make_request(
    prompt: Sequence[int],
    max_new: int,
    *,
    instance: int | None = None,
    more: int | None = None,
    prefix: Prefix | None = None,
    most: int | None = None,
    regions: Sequence[tuple[int, int | None, int | None]] = (),
) -> Request:
    """A gen of `max_new` tokens whose results the simulation notes."""
    return Request(
        np.array(prompt, np.int32),
        on_done=_nobody,
        row=SimpleNamespace(max_new=max_new),  # type: ignore[arg-type]
        prefix=prefix,
        instance=instance,
        more_tokens=more,
        most=most,
        regions=tuple(Region(*region) for region in regions),
    )


class Simulation:
    """Steps a scheduler as the engine's core does.

    Attributes:
        started: requests in the order of their first admission.
        done: requests that ended by themselves, in order.
        computed: tokens that were computed in each step.
    """

    def __init__(self, num_slots: int, **config: object) -> None:
        self.config = EngineConfig(kv_tokens=num_slots, **config)  # type: ignore[arg-type]
        self.cache = PrefixCache(num_slots, self.config.cache, self.config.cache_tree)
        self.metrics = Metrics()
        self.scheduler = Scheduler(
            self.cache,
            self.config,
            self.metrics,
            begins=lambda request: self.trie.add_prompt(request.prompt.copy()),
        )
        self.trie = PromptTrie(10_000_000)
        self.started: list[Request] = []
        self.done: list[Request] = []
        self.computed: list[int] = []
        self.prompt_tokens = self.cached_tokens = 0
        self.keep_lists = True
        self._pool = np.zeros(num_slots, np.int64)
        self._numbers: dict[Request, list[int]] = {}

    def add(
        self,
        prompt: Sequence[int],
        max_new: int = 1,
        *,
        instance: int | None = None,
        more: int | None = None,
        prefix: Prefix | None = None,
        most: int | None = None,
        regions: Sequence[tuple[int, int | None, int | None]] = (),
    ) -> Request:
        request = make_request(
            prompt,
            max_new,
            instance=instance,
            more=more,
            prefix=prefix,
            most=most,
            regions=regions,
        )
        assert self.scheduler.too_large(request) is None
        self.scheduler.add(request)
        return request

    def cancel(self, request: Request) -> None:
        self._numbers.pop(request, None)
        self.scheduler.drop(request)

    def step(self) -> list[Request]:
        """One step; the requests that ended in it."""
        chunks = self.scheduler.plan()
        aside = any(request.aside for request in self.scheduler.running)
        assert chunks or aside or self.scheduler.idle, "requests wait and none can run"
        for chunk in chunks:
            self._write(chunk.request, chunk.start, chunk.end)
        for chunk in chunks:
            self._check(chunk.request, chunk.end)
            self.scheduler.computed(chunk)
        if self.keep_lists:
            self.computed.append(sum(c.end - c.start for c in chunks))
        ended = [c.request for c in chunks if self._goes_on(c.request, c.end)]
        self.done += ended if self.keep_lists else []
        return ended

    def run(self) -> None:
        """Step until nothing is left."""
        while not self.scheduler.idle:
            self.step()

    @property
    def hit_rate(self) -> float:
        return self.cached_tokens / self.prompt_tokens

    # -- below --------------------------------------------------------------------------------

    def _write(self, request: Request, start: int, end: int) -> None:
        if request not in self._numbers:
            self._numbers[request] = []
            if self.keep_lists:
                self.started.append(request)
        numbers = self._numbers[request]
        for token in request.tokens[len(numbers) : end].tolist():
            numbers.append(prefix_number(numbers[-1] if numbers else 0, token))
        self._pool[request.slots[start:end]] = numbers[start:end]

    def _check(self, request: Request, end: int) -> None:
        assert (self._pool[request.slots[:end]] == self._numbers[request][:end]).all(), "wrong KV"

    def _goes_on(self, request: Request, end: int) -> bool:
        """Sample where the logits are there; whether that was the last token."""
        if end < request.num_target or request.state is State.DONE:
            return False
        request.push(next_token(int(self._pool[request.slots[end - 1]])))
        if len(request.output) < request.max_new:
            return False
        self.trie.add_made(request.tokens[: request.num_tokens - 1].copy(), request.num_prompt)
        self.scheduler.drop(request, request.num_tokens - 1)
        self.prompt_tokens += request.num_prompt
        self.cached_tokens += request.cached_tokens or 0
        del self._numbers[request]
        return True


def _nobody(request: Request, outcome: Outcome) -> None:
    raise AssertionError("the simulation answers by itself")


def check_laws(run: Simulation) -> None:
    """What must hold after every step, of memory, queue and what is known of instances."""
    scheduler = run.scheduler
    flight = scheduler.in_flight
    owned = [r.slots[r.node.end : r.num_slots] for r in flight if r.node is not None]
    run.cache.check(owned or [np.empty(0, np.int64)])
    assert all(r.state is State.PREFILLING for r in scheduler.prefilling)
    assert all(r.state is State.RUNNING for r in scheduler.running)
    assert len(flight) <= run.config.max_running
    waiting = list(scheduler.waiting)
    assert all(r.state is State.WAITING for r in waiting)
    walked = list(scheduler.waiting.walk())
    assert len(walked) == len(waiting) == len(scheduler.waiting)
    assert set(walked) == set(waiting), "the walk misses some"
    if waiting:
        oldest = scheduler.waiting.oldest
        assert oldest is min(waiting, key=lambda r: r.arrival)
    instances = scheduler.admission.instances
    assert instances.growth >= 0
    assert instances.claimed(run.cache.num_slots) >= 0
