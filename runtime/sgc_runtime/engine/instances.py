"""Program instances that the engine has begun to serve, and what they will still need.

Finishing what was begun comes first: requests of started instances are looked at before those of
new ones, in cohorts by the order of their starts. And a new instance does not start while it, or
what its later calls may generate, would push out KV that started ones come back for: between two
calls nothing locks that KV, and the place in flight is empty. All of it is a bias: it lapses for
instances that stay away, and with nothing in flight a request starts in any case.

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
    claim: int = 0  # those of them that count as claimed now
    more: int | None = None  # tokens that calls to come may still generate, where known


class Instances:
    """Started instances, by the last thing that happened to them.

    Args:
        cohort: so many instances, one after another by start, are served as equals.
        patience: ticks of the engine's clock after which one that stays away is forgotten.
    """

    def __init__(self, cohort: int, patience: int) -> None:
        self._size, self._patience = cohort, patience
        self._started: OrderedDict[int, _Started] = OrderedDict()
        self._starts = 0
        self._claims = self._more = 0

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
        return self._more

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
        self._see(request, found, clock)
        self._claim(found)
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
        self._claim(found)
        if done and found.in_flight == 0 and found.more == 0:
            self._forget(request.instance)

    def lapse(self, clock: int) -> None:
        """Forget those that stayed away for too long."""
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
        if request.more_tokens is not None:
            # Calls of one instance may overtake each other: the bound never rises.
            more = (
                request.more_tokens if found.more is None else min(request.more_tokens, found.more)
            )
            self._more += more - (found.more or 0)
            found.more = more
        found.seen = clock
        self._started.move_to_end(request.instance)

    def _claim(self, found: _Started) -> None:
        """What is in flight is locked and needs no claim."""
        claim = found.stored if found.more and not found.in_flight else 0
        self._claims += claim - found.claim
        found.claim = claim

    def _forget(self, instance: int) -> None:
        found = self._started.pop(instance)
        self._claims -= found.claim
        self._more -= found.more or 0
