"""Known beginnings of prompts, computed before the calls come.

While a program waits for one answer, much of what it will ask with it is often known. A job
(`AheadJob`) is such a beginning. It has the lowest priority: a step computes a piece of one where
no request waits, with what is left of its budget, and in memory that is neither held for calls to
come (`lifetimes`) nor may be needed by those in flight. Between two steps a job has nothing but
its ids: what it has computed lies in the tree as a prefix like any other, and may be evicted.

Whoever reads those tokens first is counted as having computed them (`Node.ahead`), so hit rates
say what they say without it.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

import numpy as np

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Ids, Node
from sgc_runtime.engine.request import Outcome, Prefix, Request, State
from sgc_runtime.engine.sharing import PrefixesInFlight

_MOST_JOBS = 4_096


class AheadJob:
    """A beginning of a prompt that is likely to come. Made and dropped on an event loop, carried
    out in the engine's thread.

    Args:
        ids: the last one is not computed: a call computes it for its logits.
        prefix: soft hold of the stream.

    Attributes:
        dropped: nobody wants it any more.
    """

    __slots__ = ("dropped", "ids", "prefix")

    def __init__(self, ids: Ids, prefix: Prefix | None = None) -> None:
        self.ids, self.prefix = ids, prefix
        self.dropped = False


class PrefillAhead:
    """The jobs of an engine, the oldest first.

    Attributes:
        num_tokens: tokens that were computed ahead so far.
    """

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._jobs: OrderedDict[AheadJob, None] = OrderedDict()
        self.num_tokens = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, job: AheadJob) -> None:
        """Take a job; the oldest is dropped where there are too many."""
        if self._cache.enabled and self._cache.has_tree:
            self._jobs[job] = None
            if len(self._jobs) > _MOST_JOBS:
                self._jobs.popitem(last=False)

    def next(self, tokens: int, needed: int, prefixes: PrefixesInFlight) -> Request | None:
        """A piece of the oldest job as a request with slots, to be computed from `num_computed` to
        `num_slots` and then to be taken to `computed`; None where there is nothing to do.

        Args:
            tokens: at most so many.
            needed: slots that those in flight may still take.
            prefixes: what requests compute themselves.
        """
        for job in list(self._jobs):
            if job.dropped:
                del self._jobs[job]
                continue
            hold, start = job.prefix, None
            if hold is not None:
                start = self._cache.climb(hold.node, hold.length)
            node, matched = self._cache.find(job.ids[:-1], start)
            if matched >= len(job.ids) - 1:
                del self._jobs[job]
                continue
            request = Request(job.ids, on_done=partial(self._failed, job))
            if prefixes.leader(request, node, matched) is None:
                return self._begin(request, self._cache.reach(node, matched), tokens, needed)
        return None

    def _failed(self, job: AheadJob, request: Request, outcome: Outcome) -> None:
        self._jobs.pop(job, None)

    def _begin(self, request: Request, node: Node, tokens: int, needed: int) -> Request | None:
        cache, request.is_ahead = self._cache, True
        cache.lock(node, user=None)
        # What the job has already is locked: it does not push itself out.
        room = cache.available - cache.held - needed
        count = min(len(request.tokens) - 1 - node.end, tokens, room)
        slots = cache.alloc(count) if count > 0 else None
        if slots is None:
            cache.unlock(node)
            return None
        end = node.end + count
        request.node, request.num_matched = node, node.end
        request.slots[:end] = np.concatenate([cache.path_slots(node), slots])
        request.num_slots, request.num_computed = end, node.end
        request.state = State.PREFILLING
        self.num_tokens += count
        return request
