"""Decides what each step computes, and who holds which memory.

A request's life here: waiting -> prefilling (its whole prompt has slots, chunks are computed) ->
running (one token a step, and those that a constraint forces with it) -> done; retraction leads
back to waiting with its output kept.

Progress: the oldest request in flight is never retracted, and a request alone always fits
(`too_large` is asked before `add`), so some request always advances.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine.admission import Admission
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.metrics import Metrics
from sgc_runtime.engine.prompt_budget import PromptBudget
from sgc_runtime.engine.request import Prefix, Request, State
from sgc_runtime.engine.request_memory import give_back, give_back_end, store
from sgc_runtime.engine.safety import is_safe, most_that_may_go, need_of

_GOLDEN = (5**0.5 - 1) / 2


class Chunk(NamedTuple):
    """Tokens `[start, end)` of a request are computed in this step."""

    request: Request
    start: int
    end: int

    @property
    def is_pending(self) -> bool:
        """Whether its last id was sampled and is not known yet."""
        return self.end > self.request.num_tokens


def _ignore(request: Request) -> None:
    return


def _decodes(request: Request) -> bool:
    """Whether a running request has tokens to compute, and neither stands aside nor waits."""
    if request.aside or (request.pending and request.ends_with_pending):
        return False
    return request.num_ahead > request.num_computed


class Scheduler:
    """Queues and memory. Called in the engine's thread only.

    With overlap the ids that are being sampled are not known when the next step is planned
    (`Request.pending`): that step computes them where they are, behind the known ones.

    Args:
        forget: called with each request that leaves the flight.
        begins: called with each request that begins for the first time, in that order.
        returns: called with each of them that waits as before, since the step was not computed.
    """

    def __init__(
        self,
        cache: PrefixCache,
        config: EngineConfig,
        metrics: Metrics,
        forget: Callable[[Request], None] = _ignore,
        begins: Callable[[Request], object] = _ignore,
        returns: Callable[[Request], object] = _ignore,
    ) -> None:
        self._cache, self._config, self._metrics = cache, config, metrics
        self._forget, self._begins, self._returns = forget, begins, returns
        self.admission = Admission(cache, config)
        self.waiting, self.lifetimes = self.admission.waiting, self.admission.lifetimes
        self.prefilling: list[Request] = []
        self.running: list[Request] = []
        self._begun: list[tuple[Request, bool]] = []  # in the last plan; whether for the first time
        self._num_added = 0
        self._streak = 0
        self._stalled = False
        self._largest_need = 0  # of all in flight, or more
        self._clock = 0  # tokens computed so far

    @property
    def prefill_tokens(self) -> int:
        """Prompt tokens that one step computes at most."""
        return self._config.prefill_tokens

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
        if self._config.match_share < 1.0:
            self._num_added += 1  # spread evenly, also over few requests
            request.may_match = self._num_added * _GOLDEN % 1.0 < self._config.match_share
        self.waiting.add(request)
        self.lifetimes.comes(request)

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
        else:
            request.state = State.DONE
            return
        self.lifetimes.ends(request, gave_result=num_kept > 0)
        if num_kept > 0:
            self.admission.see_length(request)
        request.state = State.DONE

    def too_large(self, request: Request) -> str | None:
        """Why a request can never run, and what to do, or None."""
        needed = request.num_target + request.num_growth + request.max_new - request.bound
        if needed <= self._cache.num_slots:
            return None
        asked, new, advice = request.num_prompt, "", "shorten the prompt"
        if request.scoring is not None:
            asked = request.scoring.trie.num_prompt
            new = f" and {request.num_prompt - asked} of the texts to be scored"
            advice = "give fewer or shorter texts"
        elif request.row is not None:
            new, advice = f" and max_tokens={request.max_new}", f"{advice}, lower max_tokens"
        return (
            f"{asked} prompt tokens{new} need {needed} KV slots, "
            f"the pool has {self._cache.num_slots}; {advice} or give the engine more KV memory"
        )

    # -- one step -----------------------------------------------------------------------------

    def plan(self) -> list[Chunk]:
        """The next step's work, with slots for all of it; empty when nothing waits, but for what
        stands aside and for results."""
        # Rows that decode get their slots first: nobody that begins in this step, or whose prompt
        # others share in it, is retracted for them.
        self.lifetimes.lapse()
        decodes = self._streak >= self._config.max_prefill_streak
        decode = self._decode() if decodes else []
        prefill = self._prefill()
        if not prefill and not decodes:
            decode, decodes = self._decode(), True
        self._streak = bool(prefill) + (0 if decodes else self._streak)
        self._count(prefill, decode)
        return prefill + decode + self._look_ahead()

    def _look_ahead(self) -> list[Chunk]:
        """A piece of a prompt that is likely to come, with what is left of the step."""
        request = self.admission.look_ahead(self._budget, self.prefilling, self.running)
        if request is None:
            return []
        self.prefilling.append(request)
        return [Chunk(request, request.num_computed, request.num_slots)]

    def _count(self, prefill: list[Chunk], decode: list[Chunk]) -> None:
        num_prompt_tokens = sum(c.end - c.start for c in prefill)
        self.admission.turns.clock += num_prompt_tokens
        self._clock += num_prompt_tokens + sum(c.end - c.start for c in decode)
        self._metrics.prefill_steps += bool(prefill)
        self._metrics.decode_steps += bool(decode)
        self._metrics.see(len(self.prefilling) + len(self.running), self._cache.referenced)

    def computed(self, chunk: Chunk) -> None:
        """The KV of `chunk` is there for all that is computed later; prompts can be shared from
        now on."""
        request, _, end = chunk
        if request.state is not State.PREFILLING:
            request.ahead = request.pending
            request.num_computed = end - request.pending
            return
        request.num_computed = end
        if request.is_ahead:
            self._leave_flight(request, end)
            request.state = State.DONE
            return
        store(self._cache, request, min(end, request.num_linear))
        if end == request.num_target:
            self.prefilling.remove(request)
            self.running.append(request)
            request.state = State.RUNNING

    def not_computed(self) -> None:
        """Nothing of the last plan is computed; its prompts have been dropped. What others share of
        them is not there, so whoever has begun with that begins anew."""
        for request, is_first in self._begun:
            request.num_computed = 0  # what it found may be what others were to compute
            if request.state is not State.PREFILLING:
                continue
            lost = min(request.num_lost, request.num_matched)  # what has been counted is more
            self._return(request)
            request.num_lost = lost
            if is_first:
                request.cached_tokens = None
                self._returns(request)
        self.admission.unshare()

    # -- prefill ------------------------------------------------------------------------------

    def _prefill(self) -> list[Chunk]:
        """Chunks of the prompts in flight, oldest admission first, then of new ones."""
        self._budget = budget = PromptBudget(self._prompt_tokens(), self._config.score_tokens)
        ends: dict[Request, int] = {}
        for request in self.prefilling:
            end = budget.take(request)
            if end > request.num_computed:
                ends[request] = end
        begun = self.admission.admit(budget, ends, self.prefilling, self.running, self._clock)
        self._begun = [(request, request.cached_tokens is None) for request in begun]
        for request in begun:
            self._count_admission(request, request.num_matched)
            self._largest_need = max(self._largest_need, request.num_needed)
        self.prefilling += begun
        return [Chunk(request, request.num_computed, end) for request, end in ends.items()]

    def _prompt_tokens(self) -> int:
        """How many prompt tokens the step may compute: no more than others can wait for."""
        most, mixed = self._config.prefill_tokens, self._config.mixed_tokens
        if mixed is None or not any(map(_decodes, self.running)):
            return most
        return min(most, mixed)

    def _count_admission(self, request: Request, matched: int) -> None:
        request.times.admit()
        if request.cached_tokens is None:
            if self.admission.ahead.num_tokens:
                assert request.node is not None
                request.num_ahead_read += self._cache.readers.read(request.node)
            request.cached_tokens = max(0, matched - request.num_ahead_read)
            self._begins(request)
        else:
            self._metrics.recomputed_tokens += max(0, request.num_lost - matched)

    # -- decode -------------------------------------------------------------------------------

    def _decode(self) -> list[Chunk]:
        while True:
            chunks = self._decode_chunks()
            missing = [max(0, c.end - c.request.num_slots) for c in chunks]
            wanted = sum(missing)
            if self._config.hints and self._cache.available - wanted < self._largest_need:
                going = self._safe(chunks, missing)
                chunks, missing = [chunks[i] for i in going], [missing[i] for i in going]
                wanted = sum(missing)
            slots = self._cache.alloc(wanted)
            if slots is not None:
                break
            if self._waits_for_results():
                return []
            others = [r for r in self.in_flight if not r.aside]
            if len(others) == 1 and others != self.in_flight:
                return []  # those that stand aside come back before long
            self._retract(max(others, key=lambda r: r.arrival))
        self._stalled = False
        given = 0
        for chunk, count in zip(chunks, missing, strict=True):
            if count:
                request, _, end = chunk
                request.slots[request.num_slots : end] = slots[given : given + count]
                request.num_slots = end
                given += count
        return chunks

    def _safe(self, chunks: list[Chunk], missing: list[int]) -> list[int]:
        """Places of those chunks that may be computed so that all in flight can end. There is none
        where only one that computes no token now can be the first to end."""
        self._largest_need = max((r.num_needed for r in self.in_flight), default=0)
        available = self._cache.available
        if available - sum(missing) >= self._largest_need:
            return list(range(len(chunks)))
        # Those that are to end first are the first that may go on.
        order = sorted(range(len(chunks)), key=lambda i: chunks[i].request.num_needed)
        going = {chunk.request for chunk in chunks}
        needs = [need_of(chunks[i].request) for i in order]
        needs += [need_of(r) for r in self.in_flight if r not in going]
        may = most_that_may_go(available, needs, [missing[i] for i in order])
        if not may and not is_safe(available, needs):
            return list(range(len(chunks)))  # a bound did not hold
        return sorted(order[:may])

    def _waits_for_results(self) -> bool:
        """Whether to wait, once, for ids that are being sampled: rows may end with them."""
        self._stalled = not self._stalled and any(r.pending for r in self.running)
        return self._stalled

    def _decode_chunks(self) -> list[Chunk]:
        """Of each running request its tokens: one, and those that are forced behind it, of which
        a step takes no more in all than prompt tokens beside decoding rows."""
        chunks, budget = [], self._config.mixed_tokens or self._config.prefill_tokens
        for request in self.running:
            if not _decodes(request):
                continue
            start, end = request.num_computed, request.num_ahead
            if end - start > 1:
                end = min(end, start + 1 + budget)
                budget -= end - start - 1
            chunks.append(Chunk(request, start, end))
        return chunks

    def cut(self, request: Request, length: int) -> None:
        """Give back what a running request holds behind its first `length` tokens: those behind
        were taken back, or are to be computed anew."""
        give_back_end(self._cache, request, length)

    def _retract(self, request: Request) -> None:
        assert len(self.in_flight) > 1, "a request alone always fits"
        self._return(request)
        self._metrics.retractions += 1

    def _return(self, request: Request) -> None:
        """Let a request wait again, with its output."""
        request.num_lost = request.num_computed
        self._leave_flight(request, min(request.num_computed, request.num_linear), done=False)
        request.num_computed = 0
        if request.scoring is not None:
            request.scoring.restart()
        request.state = State.WAITING
        self.waiting.add_returned(request)
        self.lifetimes.waits(request)

    def _leave_flight(self, request: Request, num_kept: int, done: bool = True) -> None:
        queue = self.prefilling if request.state is State.PREFILLING else self.running
        queue.remove(request)
        stored = give_back(self._cache, request, num_kept)
        self._forget(request)
        # What is known of its regions is claimed by them.
        stored = 0 if request.regions and self._config.hints else stored
        self.admission.instances.leave(request, self._clock, stored, done)
