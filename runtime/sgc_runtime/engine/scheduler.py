"""Decides what each step computes, and who holds which memory.

A request's life here: waiting -> prefilling (its whole prompt has slots, chunks are computed) ->
running (one token a step) -> done; retraction leads back to waiting with its output kept.

Progress: the oldest request in flight is never retracted, and a request alone always fits
(`too_large` is asked before `add`), so some request always advances.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import ceil

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.queue import WaitingQueue
from sgc_runtime.engine.request import Prefix, Request, State
from sgc_runtime.engine.sharing import PrefixesInFlight


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens `[start, end)` of a request are computed in this step."""

    request: Request
    start: int
    end: int


class Scheduler:
    """Queues and memory. Called in the engine's thread only."""

    def __init__(
        self,
        cache: PrefixCache,
        config: EngineConfig,
        metrics: Metrics,
    ) -> None:
        self._cache, self._config, self._metrics = cache, config, metrics
        self.waiting = WaitingQueue()
        self.prefilling: list[Request] = []
        self.running: list[Request] = []
        self._streak = 0

    @property
    def in_flight(self) -> list[Request]:
        return self.prefilling + self.running

    @property
    def idle(self) -> bool:
        return not (len(self.waiting) or self.prefilling or self.running)

    # -- coming and going ---------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request that `too_large` does not refuse."""
        request.state = State.WAITING
        if request.prefix is not None:
            request.anchor = self.forget(request.prefix)
        self.waiting.add(request)

    def forget(self, prefix: Prefix) -> Node:
        """Let what lies behind a soft hold leave the tree; where the hold begins to match now."""
        self._cache.prune(prefix.node, prefix.length)
        return self._cache.climb(prefix.node, prefix.length)

    def drop(self, request: Request, num_kept: int = 0) -> None:
        """End a request wherever it is; the KV of its first `num_kept` tokens stays cached."""
        if request.state is State.WAITING:
            self.waiting.remove(request)
        elif request.state in (State.PREFILLING, State.RUNNING):
            self._leave_flight(request, num_kept)
        request.state = State.DONE

    def too_large(self, request: Request) -> str | None:
        """Why a request can never run, or None."""
        needed = request.num_target + request.num_growth
        if needed <= self._cache.num_slots:
            return None
        new = f" and max_tokens={request.max_new}" if request.row is not None else ""
        return (
            f"{request.num_prompt} prompt tokens{new} need {needed} KV slots, "
            f"the pool has {self._cache.num_slots}"
        )

    # -- one step -----------------------------------------------------------------------------

    def plan(self) -> list[Chunk]:
        """The next step's work, with slots for all of it; empty when nothing waits."""
        budget = self._config.prefill_tokens
        prefill = self._go_on(budget)
        prefill += self._admit(budget - sum(c.end - c.start for c in prefill))
        decode: list[Chunk] = []
        if not prefill or self._streak >= self._config.max_prefill_streak:
            decode = self._decode()
            self._streak = 0
            prefill = [c for c in prefill if c.request.state is State.PREFILLING]
        self._streak += bool(prefill)
        self._metrics.prefill_steps += bool(prefill)
        self._metrics.decode_steps += bool(decode)
        self._metrics.see(len(self.in_flight), self._cache.referenced)
        return prefill + decode

    def computed(self, chunk: Chunk) -> None:
        """The KV of `chunk` is there; prompts can be shared from now on."""
        request = chunk.request
        request.num_computed = chunk.end
        if request.state is not State.PREFILLING:
            return
        if request.keep:
            self._store(request, min(chunk.end, request.num_linear))
        if chunk.end == request.num_target:
            request.times.prefill()
            self.prefilling.remove(request)
            self.running.append(request)
            request.state = State.RUNNING

    # -- prefill ------------------------------------------------------------------------------

    def _go_on(self, budget: int) -> list[Chunk]:
        chunks: list[Chunk] = []
        for request in self.prefilling:
            if budget <= 0:
                break
            chunks.append(self._next_chunk(request, budget))
            budget -= chunks[-1].end - chunks[-1].start
        return chunks

    def _next_chunk(self, request: Request, budget: int) -> Chunk:
        start = request.num_computed
        return Chunk(request, start, min(request.num_target, start + budget))

    def _admit(self, budget: int) -> list[Chunk]:
        if budget <= 0 or not len(self.waiting):
            return []
        chunks: list[Chunk] = []
        in_flight = PrefixesInFlight(self.prefilling, self._config.share_min_tokens)
        # A list, since the queue changes below.
        for request in list(islice(self.waiting, self._config.scan_limit)):
            if budget <= 0 or len(self.in_flight) >= self._config.max_running:
                break
            if self._cache.enabled and self._waits_for_prefix(request, in_flight):
                continue
            if not self._take_memory(request):
                break
            in_flight.add(request)
            chunks.append(self._next_chunk(request, budget))
            budget -= chunks[-1].end - chunks[-1].start
        return chunks

    def _waits_for_prefix(self, request: Request, in_flight: PrefixesInFlight) -> bool:
        if request.leader is not None and request.leader.computes():
            return True
        ids = request.tokens[: request.num_matchable]
        request.leader = in_flight.leader(request, *self._cache.find(ids, request.anchor))
        return request.leader is not None

    def _take_memory(self, request: Request) -> bool:
        """Lock the cached prefix, get slots for the rest; False when they are not to be had."""
        node = self._cache.match(request.tokens[: request.num_matchable], request.anchor)
        self._cache.lock(node)
        missing = request.num_target - node.end
        slots = self._cache.alloc(missing) if self._fits(request, missing) else None
        if slots is None:
            self._cache.unlock(node)
            return False
        request.node = node
        request.slots[: node.end] = self._cache.path_slots(node)
        request.slots[node.end : request.num_target] = slots
        request.num_slots, request.num_computed = request.num_target, node.end
        self._count_admission(request, node.end)
        self.waiting.remove(request)
        self.prefilling.append(request)
        request.state, request.leader = State.PREFILLING, None
        return True

    def _fits(self, request: Request, missing: int) -> bool:
        in_flight = self.in_flight
        if not in_flight:
            return True
        growth = request.num_growth + sum(r.num_growth for r in in_flight)
        return missing + ceil(self._config.reserve * growth) <= self._cache.available

    def _count_admission(self, request: Request, matched: int) -> None:
        request.times.admit()
        if request.cached_tokens is None:
            request.cached_tokens = matched
        else:
            self._metrics.recomputed_tokens += max(0, request.num_lost - matched)

    # -- decode -------------------------------------------------------------------------------

    def _decode(self) -> list[Chunk]:
        while True:
            slots = self._cache.alloc(len(self.running))
            if slots is not None:
                break
            self._retract(max(self.in_flight, key=lambda r: r.arrival))
        for request, slot in zip(self.running, slots, strict=True):
            request.slots[request.num_slots] = slot
            request.num_slots += 1
        return [Chunk(r, r.num_computed, r.num_tokens) for r in self.running]

    def _retract(self, request: Request) -> None:
        assert len(self.in_flight) > 1, "a request alone always fits"
        request.num_lost = request.num_computed
        self._leave_flight(request, min(request.num_computed, request.num_linear))
        request.num_computed = 0
        if request.scoring is not None:
            request.scoring.restart()
        request.state = State.WAITING
        self.waiting.add_returned(request)
        self._metrics.retractions += 1

    # -- memory of one request ----------------------------------------------------------------

    def _store(self, request: Request, num_kept: int) -> None:
        node = request.node
        assert node is not None
        if num_kept <= node.end:
            return
        leaf = self._cache.store(request.tokens[:num_kept], request.slots[:num_kept], node)
        self._cache.lock(leaf)
        self._cache.unlock(node)
        request.node = leaf

    def _leave_flight(self, request: Request, num_kept: int) -> None:
        queue = self.prefilling if request.state is State.PREFILLING else self.running
        queue.remove(request)
        num_kept = min(num_kept, request.num_computed) if request.keep else 0
        assert request.node is not None
        if num_kept > request.node.end:
            self._store(request, num_kept)
        node = request.node
        self._cache.release(request.slots[node.end : request.num_slots])
        self._cache.unlock(node)
        request.num_slots = 0
        request.anchor, request.node = node, None
