"""Program instances that the engine has begun to serve, and what they will still need.

Finishing what was begun comes first: requests of started instances are looked at before those of
new ones, in cohorts by the order of their starts. And a new instance does not start while it, or
what its later calls may generate, would push out KV that started ones come back for: between two
calls nothing locks that KV, and the place in flight is empty. All of it is a bias: claims lapse
for instances that stay away for a few steps (one that failed, took another branch or waits for a
slow tool), later so does their place in the order, and with nothing in flight a request starts in
any case.

Where memory is short the order alone brings instances to an end earlier, and the claims keep all
of them from computing their prompts again (`benchmarks/instances.py` has both, and each alone).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sgc_runtime.engine.request import Request


@dataclass(slots=True)
class _Started:
    cohort: int
    seen: int  # clock of the last event
    in_flight: int = 0
    stored: int = 0  # tokens that its calls have put into the cache
    more: int | None = None  # tokens that calls to come may still generate, where known
    claim: int = 0  # those of `stored` that count as claimed now
    growth: int = 0  # those of `more` that count now


class Instances:
    """Started instances, by the last thing that happened to them.

    Args:
        cohort: so many instances, one after another by start, are served as equals.
        patience: ticks of the engine's clock after which one that stays away is forgotten.
        claim_steps: steps after which what it claims lapses.
    """

    def __init__(self, cohort: int, patience: int, claim_steps: int) -> None:
        self._size, self._patience, self._claim_steps = cohort, patience, claim_steps
        self._started: OrderedDict[int, _Started] = OrderedDict()  # by their last event
        self._away: OrderedDict[int, int] = OrderedDict()  # step since which, of those with claims
        self._starts = self._step = 0
        self._claims = self._growth = 0

    def __len__(self) -> int:
        return len(self._started)

    def cohort_of(self, request: Request) -> int | None:
        """The cohort of its instance, or None when none of it was served."""
        if request.instance is None:
            return None
        found = self._started.get(request.instance)
        return found.cohort if found is not None else None

    def claimed(self, evictable: int) -> int:
        """Cached tokens that instances between two calls are certain to come back for, of at most
        `evictable` that are there."""
        return min(self._claims, evictable)

    @property
    def growth(self) -> int:
        """Tokens that calls to come of started instances may generate."""
        return self._growth

    def admit(self, request: Request, clock: int) -> int | None:
        """One of its requests is computed now; the cohort if that starts the instance."""
        if request.instance is None:
            return None
        found = self._started.get(request.instance)
        starts = found is None
        if found is None:
            found = _Started(self._starts // self._size, clock)
            self._starts += 1
            self._started[request.instance] = found
        found.in_flight += 1
        self._away.pop(request.instance, None)
        self._see(request, found, clock)
        # What is in flight is locked and needs no claim.
        self._count(found, 0, found.more or 0)
        return found.cohort if starts else None

    def leave(self, request: Request, clock: int, stored: int, done: bool) -> None:
        """A request that was admitted leaves flight; `stored` of its tokens, which no other
        request had computed, are cached now."""
        if request.instance is None:
            return
        found = self._started[request.instance]
        found.in_flight -= 1
        found.stored += stored
        self._see(request, found, clock)
        if found.in_flight:
            return
        if done and found.more == 0:
            self._forget(request.instance)
        elif found.more:
            self._count(found, found.stored, found.more)
            self._away[request.instance] = self._step

    def lapse(self, clock: int) -> None:
        """A step begins: drop what those that stayed away for too long claim, or all of them."""
        self._step += 1
        while self._away:
            instance, since = next(iter(self._away.items()))
            if self._step - since <= self._claim_steps:
                break
            del self._away[instance]
            self._count(self._started[instance], 0, 0)
        while self._started:
            instance, first = next(iter(self._started.items()))
            if clock - first.seen <= self._patience:
                return
            if first.in_flight:
                first.seen = clock
                self._started.move_to_end(instance)
            else:
                self._forget(instance)

    # -- below --------------------------------------------------------------------------------

    def _see(self, request: Request, found: _Started, clock: int) -> None:
        assert request.instance is not None
        more = request.more_tokens
        if more is not None:
            # Calls of one instance may overtake each other: the bound never rises.
            found.more = more if found.more is None else min(more, found.more)
        found.seen = clock
        self._started.move_to_end(request.instance)

    def _count(self, found: _Started, claim: int, growth: int) -> None:
        self._claims += claim - found.claim
        self._growth += growth - found.growth
        found.claim, found.growth = claim, growth

    def _forget(self, instance: int) -> None:
        self._count(self._started.pop(instance), 0, 0)
        self._away.pop(instance, None)
