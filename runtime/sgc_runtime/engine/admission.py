"""Decides which waiting requests begin in a step.

In order of their claim: the oldest when its turn has come (`turns`), then what the queue's walk
gives (`queue`, `order`), until the first that does not fit. A request that would compute what
another one computes right now is passed over together with all that share that prefix
(`sharing`), and the places and the memory that they will need are kept for them.

A request fits if its own tokens, and the share `reserve` of what it and all in flight may still
generate, find room. For a program instance that has not begun, the tokens that begun instances
will come back for must find room too, and the share `claims` of what later calls, its own and
theirs, may generate (`instances`). With nothing in flight it fits in any case.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import ceil

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.instances import Instances
from sgc_runtime.engine.order import ArrivalOrder, Group, Order, PrefixOrder
from sgc_runtime.engine.queue import WaitingQueue
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.request_memory import find_prefix, lock_prefix, take_slots
from sgc_runtime.engine.sharing import PrefixesInFlight
from sgc_runtime.engine.turns import Turns


class _Round:
    """The admissions of one step: what is left to give, and what has been given."""

    def __init__(self, budget: int, places: int, growth: int, prefixes: PrefixesInFlight) -> None:
        self.budget, self.places, self.growth, self.prefixes = budget, places, growth, prefixes
        self.ahead = 0  # slots kept for requests that were passed over
        self.admitted: list[Request] = []

    @property
    def over(self) -> bool:
        return self.budget <= 0 or self.places <= 0

    def keep_for(self, group: Group) -> None:
        coming = min(group.count, self.places)
        self.ahead += group.tokens * coming // group.count
        self.places -= coming

    def admit(self, request: Request) -> None:
        self.budget -= min(self.budget, request.num_target - request.num_computed)
        self.places -= 1
        self.growth += request.num_growth
        self.prefixes.add(request)
        self.admitted.append(request)


class Admission:
    """The waiting requests, and whose turn it is.

    Attributes:
        looked_at: requests that were considered so far; a step adds `scan_limit` at most.
        admitted: requests that began so far, those among them that came back from a retraction.
    """

    def __init__(self, cache: PrefixCache, config: EngineConfig) -> None:
        self._cache, self._config = cache, config
        self._priorities = config.priorities and config.order != "fcfs"
        self._claims = config.claims if self._priorities else 0.0
        self.turns = Turns(config.turn_tokens)
        self.instances = Instances(config.cohort, config.kv_tokens, config.claim_steps)
        self.waiting = WaitingQueue(self._make_order, self._size, self._cohort_of)
        self.looked_at = self.admitted = 0

    def admit(
        self, budget: int, prefilling: Sequence[Request], running: Sequence[Request], clock: int
    ) -> list[Request]:
        """Requests that begin now, with slots for their prompts, no longer waiting.

        Args:
            budget: prompt tokens that the step has left.
            clock: tokens computed so far, for what lapses with time.
        """
        places = self._config.max_running - len(prefilling) - len(running)
        if budget <= 0 or places <= 0 or not len(self.waiting):
            return []
        self.instances.lapse(clock)
        prefixes = PrefixesInFlight(prefilling, self._config.share_min_tokens)
        growth = sum(r.num_growth for r in prefilling) + sum(r.num_growth for r in running)
        self._alone = not prefilling and not running
        step = _Round(budget, places, growth, prefixes)
        if self._oldest_is_in(step, clock):
            self._walk(step, clock)
        self.admitted += len(step.admitted)
        return step.admitted

    # -- below --------------------------------------------------------------------------------

    def _oldest_is_in(self, step: _Round, clock: int) -> bool:
        """Serve the oldest if its turn has come; False when it has to wait, and all others."""
        if not self.turns.due:
            return True
        oldest = self.waiting.oldest
        assert oldest is not None
        self.looked_at += 1
        node, matched = find_prefix(self._cache, oldest)
        if self._waits(oldest, node, matched, step):
            return False
        if not self._take(oldest, node, matched, step, called=True):
            return False
        self.turns.take()
        self._leave_queue(oldest, clock)
        return True

    def _walk(self, step: _Round, clock: int) -> None:
        walk, before = self.waiting.walk(), len(step.admitted)
        for request in islice(walk, self._config.scan_limit) if not step.over else ():
            self.looked_at += 1
            node, matched = find_prefix(self._cache, request)
            if self._waits(request, node, matched, step):
                step.keep_for(walk.skip(self._shared_depth(request)))
            elif not self._take(request, node, matched, step):
                break
            if step.over:
                break
        # The walk is over: only now may the queue change.
        for request in step.admitted[before:]:
            self._leave_queue(request, clock)

    def _waits(self, request: Request, node: Node, matched: int, step: _Round) -> bool:
        """Whether another one computes a good part of what it lacks behind `matched` tokens."""
        if not self._cache.enabled:
            return False
        if request.leader is None or not request.leader.computes():
            request.leader = step.prefixes.leader(request, node, matched)
        return request.leader is not None

    def _shared_depth(self, request: Request) -> int:
        """Whoever shares so many tokens with a request that waits for its prefix waits too."""
        leader = request.leader
        assert leader is not None
        return min(leader.until, leader.request.num_computed + self._config.share_min_tokens)

    def _take(
        self, request: Request, node: Node, matched: int, step: _Round, called: bool = False
    ) -> bool:
        node = lock_prefix(self._cache, node, matched)
        if not self._fits(request, request.num_target - node.end, step, called):
            self._cache.unlock(node)
            return False
        if not take_slots(self._cache, request, node):
            return False
        request.state, request.leader = State.PREFILLING, None
        step.admit(request)
        self._alone = False
        return True

    def _fits(self, request: Request, missing: int, step: _Round, called: bool) -> bool:
        if self._alone:
            return True
        growth = request.num_growth + step.growth
        if not called:
            missing += step.ahead
            if self._claims and self.instances.cohort_of(request) is None:
                later = self.instances.growth + (request.more_tokens or 0)
                missing += ceil(self._claims * later)
                missing += self.instances.claimed(self._cache.evictable)
        return missing + ceil(self._config.reserve * growth) <= self._cache.available

    def _leave_queue(self, request: Request, clock: int) -> None:
        self.waiting.remove(request, served=True)
        cohort = self.instances.admit(request, clock)
        if cohort is not None and self._priorities:
            assert request.instance is not None
            self.waiting.start(request.instance, cohort)

    # -- what the queue asks ------------------------------------------------------------------

    def _make_order(self) -> Order:
        if self._config.order == "fcfs":
            return ArrivalOrder(self._size)
        longest = self._config.order == "lpm"
        return PrefixOrder(self._cache, self._size, longest, self._config.scan_limit)

    def _size(self, request: Request) -> int:
        return request.num_target + ceil(self._config.reserve * request.num_growth)

    def _cohort_of(self, request: Request) -> int | None:
        return self.instances.cohort_of(request) if self._priorities else None
