"""Decides which waiting requests begin in a step.

In order of their claim: the oldest when its turn has come (`turns`), then what the queue's walk
gives (`queue`, `order`), until the first that does not fit. A request that shares what another one
computes in this very step (`sharing`) finds it in the tree, where it is put for it: a step stores
all its keys and values before it reads any. One that would compute what another one computes in a
later step is passed over together with all that share that prefix, and the places and the memory
that they will need are kept for them.

A request fits if its own tokens, and the share `reserve` of what it and all in flight may still
generate, find room. For a program instance that has not begun, the tokens that begun instances
will come back for must find room too, and the share `claims` of what later calls, its own and
theirs, may generate (`instances`, `lifetimes`). With `hints` all in flight must be able to end with
it (`safety`), and what is held for others, or will be when those in flight end, must stay, unless a
row more is worth what it costs to compute it anew. With nothing in flight it fits in any case.

With `hints` a call of a begun instance that goes on from nothing in the cache, where nobody knows
how much is to come, waits among the new ones: nothing of its instance is lost meanwhile, and
whoever finds its prefix is served before those that would push it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import islice
from math import ceil

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node
from sgc_runtime.engine.config import EngineConfig
from sgc_runtime.engine.instances import Instances
from sgc_runtime.engine.lifetimes import Lifetimes
from sgc_runtime.engine.order import ArrivalOrder, Group, Order, PrefixOrder, RandomOrder
from sgc_runtime.engine.prefill_ahead import PrefillAhead
from sgc_runtime.engine.prompt_budget import PromptBudget
from sgc_runtime.engine.queue import WaitingQueue
from sgc_runtime.engine.request import Leader, Request, State
from sgc_runtime.engine.request_memory import find_prefix, lock_prefix, store, take_slots
from sgc_runtime.engine.safety import is_safe, need_of
from sgc_runtime.engine.sharing import PrefixesInFlight
from sgc_runtime.engine.turns import Turns

_NEWEST = 1 / 32  # weight of the newest gen's length in the average


class _Round:
    """The admissions of one step: what is left to give, and what has been given.

    Attributes:
        ends: where the step's chunk of each prompt ends.
    """

    def __init__(
        self,
        budget: PromptBudget,
        ends: dict[Request, int],
        places: int,
        in_flight: list[Request],
        prefixes: PrefixesInFlight,
    ) -> None:
        self.budget, self.ends = budget, ends
        self.places, self.prefixes = places, prefixes
        self.growth = sum(r.num_growth for r in in_flight)
        self.returning = sum(map(_returning, in_flight))  # of `growth`, what will be read again
        self._flight = in_flight
        self.ahead = 0  # slots kept for requests that were passed over
        self.admitted: list[Request] = []
        self.begun: dict[int, int] = {}  # instances that begin in it: tokens of their later calls

    @property
    def over(self) -> bool:
        return self.budget.tokens <= 0 or self.places <= 0

    @property
    def num_in_flight(self) -> int:
        return len(self._flight)

    def is_safe(self, room: int, request: Request, holds: int) -> bool:
        """Whether all in flight can end, with a request that holds so many slots, and `room` slots
        beside them."""
        if room >= max(self._largest, request.num_growth):
            return True
        return is_safe(room, [*map(need_of, self._flight), (request.num_growth, holds)])

    @cached_property
    def _largest(self) -> int:
        return max((request.num_needed for request in self._flight), default=0)

    def keep_for(self, group: Group) -> None:
        coming = min(group.count, self.places)
        self.ahead += group.tokens * coming // group.count
        self.places -= coming

    def admit(self, request: Request) -> None:
        end = self.budget.take(request)
        if end > request.num_computed:
            self.ends[request] = end
        self.places -= 1
        self.growth += request.num_growth
        self.returning += _returning(request)
        self._flight.append(request)
        self._largest = max(self._largest, request.num_needed)
        self.prefixes.add(request)
        self.admitted.append(request)

    def gets_to(self, leader: Leader) -> bool:
        """Whether the step computes all that is shared."""
        return self.ends.get(leader.request, 0) >= leader.until


class Admission:
    """The waiting requests, and whose turn it is.

    Attributes:
        looked_at: requests that were considered so far; a step adds `scan_limit` at most.
        admitted: requests that began so far, those among them that came back from a retraction.
        reserve: share of what may still be generated for which room is kept; with `hints` the share
            that gens have made of late of what they might have made.
    """

    def __init__(self, cache: PrefixCache, config: EngineConfig) -> None:
        self._cache, self._config = cache, config
        self._priorities = config.priorities and config.order not in ("fcfs", "random")
        self._hints, self.reserve = config.hints, config.reserve
        self._claims = config.claims if self._priorities else 0.0
        self.turns = Turns(config.turn_tokens)
        self.instances = Instances(config.cohort, config.kv_tokens, config.claim_steps)
        self.lifetimes = Lifetimes(cache, config.hints, config.claim_steps)
        self.waiting = WaitingQueue(self._make_order, self._size, self._cohort_of)
        self.looked_at = self.admitted = 0
        self.ahead = PrefillAhead(cache)
        self._shared: list[tuple[Node, int]] = []  # what is put ahead into the tree, from where on

    def admit(
        self,
        budget: PromptBudget,
        ends: dict[Request, int],
        prefilling: Sequence[Request],
        running: Sequence[Request],
        clock: int,
    ) -> list[Request]:
        """Requests that begin now, with slots for their prompts, no longer waiting.

        Args:
            budget: what the step has left for prompts.
            ends: where the step's chunks of prompts end; those of new ones are added.
            clock: tokens computed so far, for what lapses with time.
        """
        self._shared.clear()
        places = self._config.max_running - len(prefilling) - len(running)
        if budget.tokens <= 0 or places <= 0 or not len(self.waiting):
            return []
        self.instances.lapse(clock)
        self._alone = not prefilling and not running
        prefixes = self._in_flight(prefilling)
        step = _Round(budget, ends, places, [*prefilling, *running], prefixes)
        if self._oldest_is_in(step, clock):
            self._walk(step, clock)
        self.admitted += len(step.admitted)
        return step.admitted

    def see_length(self, request: Request) -> None:
        """A gen has ended: by its length the next ones are reckoned with."""
        if self._hints and request.bound > 0:
            made = (request.num_tokens - request.num_prompt) / request.bound
            self.reserve += _NEWEST * (min(1.0, made) - self.reserve)

    def look_ahead(
        self, budget: PromptBudget, prefilling: Sequence[Request], running: Sequence[Request]
    ) -> Request | None:
        """A piece of a prompt that is likely to come, where nothing else is to be done; with slots,
        of which those that are not computed are to be computed in this step."""
        if not len(self.ahead) or len(self.waiting) or budget.tokens <= 0:
            return None
        if len(prefilling) + len(running) >= self._config.max_running:
            return None
        in_flight = [*prefilling, *running]
        tokens = min(budget.tokens, self._config.ahead_tokens) if in_flight else budget.tokens
        needed = sum(request.num_needed for request in in_flight)
        return self.ahead.next(tokens, needed, self._in_flight(prefilling))

    def unshare(self) -> None:
        """Nothing of the step was computed: what it put ahead into the tree leaves it. All that
        the step began has left the flight."""
        for node, start in reversed(self._shared):  # what hangs below others first
            self._cache.prune(node, start)
        self._shared.clear()

    # -- below --------------------------------------------------------------------------------

    def _in_flight(self, prefilling: Sequence[Request]) -> PrefixesInFlight:
        return PrefixesInFlight(prefilling, self._cache.enabled and self._cache.has_tree)

    def _oldest_is_in(self, step: _Round, clock: int) -> bool:
        """Serve the oldest if its turn has come; False when it has to wait, and all others."""
        if not self.turns.due:
            return True
        oldest = self.waiting.oldest
        assert oldest is not None
        self.looked_at += 1
        place = self._place(oldest, step)
        if place is None or not self._take(oldest, *place, step, called=True):
            return False
        self.turns.take()
        self._leave_queue(oldest, clock)
        return True

    def _walk(self, step: _Round, clock: int) -> None:
        walk, before = self.waiting.walk(), len(step.admitted)
        for request in islice(walk, self._config.scan_limit) if not step.over else ():
            self.looked_at += 1
            place = self._place(request, step)
            if place is None:
                step.keep_for(walk.skip(self._shared_depth(request)))
            elif not self._take(request, *place, step):
                break
            if step.over:
                break
        # The walk is over: only now may the queue change.
        for request in step.admitted[before:]:
            self._leave_queue(request, clock)

    def _place(self, request: Request, step: _Round) -> tuple[Node, int] | None:
        """Where a request leaves the tree; None: a later step computes a good part of what it
        lacks for another one."""
        while True:
            node, matched = find_prefix(self._cache, request)
            if not request.may_match:
                return node, matched
            leader = request.leader
            if leader is None or not leader.computes() or step.gets_to(leader):
                request.leader = None
                leader = step.prefixes.leader(request, node, matched)
                if leader is None:
                    return node, matched
                if step.gets_to(leader):
                    self._put_ahead(leader.request, step)
                    request.anchor = node  # no need to look above it again
                    continue
                if leader.until - matched < self._config.share_min_tokens:
                    return node, matched
            request.leader = leader
            return None

    def _put_ahead(self, request: Request, step: _Round) -> None:
        """Let others find what the step computes of a prompt. None of it is in the tree yet."""
        assert request.node is not None
        start = request.node.end
        store(self._cache, request, min(step.ends[request], request.num_linear))
        self._shared.append((request.node, start))
        step.prefixes.add(request)

    def _shared_depth(self, request: Request) -> int:
        """Whoever shares so many tokens with a request that waits for its prefix waits too."""
        leader = request.leader
        assert leader is not None
        return min(leader.until, leader.request.num_computed + self._config.share_min_tokens)

    def _take(
        self, request: Request, node: Node, matched: int, step: _Round, called: bool = False
    ) -> bool:
        node = lock_prefix(self._cache, request, node, matched)
        if not self._fits(request, request.num_target - node.end, step, called):
            self._cache.unlock(node)
            return False
        if not take_slots(self._cache, request, node):
            return False
        self.lifetimes.begins(request)
        if request.instance is not None and self.instances.cohort_of(request) is None:
            step.begun[request.instance] = request.more_tokens or 0
        request.state, request.leader = State.PREFILLING, None
        step.admit(request)
        self._alone = False
        return True

    def _fits(self, request: Request, missing: int, step: _Round, called: bool) -> bool:
        if self._alone:
            return True
        room = self._cache.available - missing
        left = room - ceil(self.reserve * (request.num_growth + step.growth))
        if not called:
            left -= step.ahead
            if self._claims and self.instances.cohort_of(request) is None:
                left -= self._claimed(request, step)
            elif self._hints and left >= 0 and not self._pays(request, left, step):
                return False
        if left < 0:
            return False
        return not self._hints or step.is_safe(room, request, missing)

    def _claimed(self, request: Request, step: _Round) -> int:
        """Slots that a new instance leaves to those that have begun, and to its own later calls."""
        held = self._cache.held if self._hints else 0
        others = sum(more for i, more in step.begun.items() if i != request.instance)
        later = self.instances.growth + others + (request.more_tokens or 0)
        certain = held + self.instances.claimed(self._cache.evictable - held)
        return ceil(self._claims * later) + certain

    def _pays(self, request: Request, left: int, step: _Round) -> bool:
        """Whether a request is to begin with `left` slots beside what those in flight are likely
        to take, though tokens that others read again may be computed anew for it: one row more
        saves steps, the fewer rows there are the more."""
        # What is read again must find room in full: in flight it is locked, then it is held.
        returning = step.returning + _returning(request)
        if not self._config.step_tokens:  # nothing that is held may be lost by a wrong guess
            returning = step.growth + request.num_growth
        lost = self._cache.held - left + ceil((1.0 - self.reserve) * returning)
        # So must the later calls of its instance: else one branch after another is carried out.
        lost += self.lifetimes.later(request)
        if lost <= 0:
            return True
        # The memory of a head that all instances share serves all that wait, one after another.
        shared = min(lost, self._cache.shared_held)
        cost = lost - shared + shared / max(1, len(self.waiting))
        rows = step.num_in_flight
        tokens = max(1.0, self.reserve * request.num_growth)
        return cost * rows * rows < tokens * self._config.step_tokens

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
        if self._config.order == "random":
            return RandomOrder(self._size)
        longest = self._config.order == "lpm"
        return PrefixOrder(self._cache, self._size, longest, self._config.scan_limit)

    def _size(self, request: Request) -> int:
        return request.num_target + ceil(self._config.reserve * request.num_growth)

    def _cohort_of(self, request: Request) -> int | None:
        if not self._priorities:
            return None
        on_from_nothing = request.anchor is None or request.anchor.parent is None
        if self._hints and request.more_tokens is None and on_from_nothing:
            return None
        return self.instances.cohort_of(request)


def _returning(request: Request) -> int:
    """Slots that it may still take, of which calls to come read what is in them."""
    return request.num_growth if request.more_tokens else 0
