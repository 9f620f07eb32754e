"""The fewest prompt tokens that can be computed: in the best order, and in a given one.

In the best order, with a cache that forgets nothing: each position of the trie of all prompts that
no decode made, once (`C` of `optimal_hit_rate`).

In a given order, one call after another, with a pool of so many tokens: Belady's rule. A call needs
all its tokens at once, the last of its prompt is computed in any case, for its logits, and of a
sequence only the end can go. Whoever needs a token needs all
before it, so the next use of a token is never later than that of those behind it; to evict what is
needed last, and among equals what is deepest, keeps to both, and is the best of all choices (tried
against all of them in `tests/benchmarks/test_optimum.py`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from benchmarks.common.simulated_engine import ServedCall
from sgc_runtime.cache.radix_tree import Ids, Node, RadixTree
from sgc_runtime.engine.prompt_trie import PromptTrie

_NEVER = 1 << 60


def fewest_in_any_order(calls: Sequence[ServedCall]) -> int:
    """Prompt tokens that any order and any cache must compute; a call that was wholly covered when
    it began counts one, for its logits (a short prompt before a longer one is not)."""
    trie = PromptTrie(1 << 60)
    for call in calls:
        trie.add_prompt(call.prompt)
        trie.add_made(call.made, len(call.prompt))
    rate = trie.optimal_hit_rate()
    asked = sum(len(call.prompt) for call in calls)
    return 0 if rate is None else round((1.0 - rate) * asked)


def fewest_in_order(calls: Sequence[ServedCall], pool: int) -> int:
    """Prompt tokens that are computed when `calls` are served one after another and what is evicted
    is always what is needed last.

    Raises ValueError for a call that is larger than the pool.
    """
    return _Belady(calls, pool).run()


class _Belady:
    """Edges of the trie of all sequences, of each of which a beginning is there."""

    def __init__(self, calls: Sequence[ServedCall], pool: int) -> None:
        self._calls, self._pool = calls, pool
        self._tree = RadixTree()
        for call in calls:  # so that no prompt ends within an edge
            for ids in (call.prompt[:-1], call.made):
                self._tree.insert(ids, np.zeros(len(ids), np.int64))
        self._paths = [self._path(call.prompt[:-1]) for call in calls]
        self._uses: dict[Node, list[int]] = {}
        for number, path in enumerate(self._paths):
            for edge in path:
                self._uses.setdefault(edge, []).append(number)
        self._there: dict[Node, int] = {}  # edge -> tokens that are there
        self._total = 0
        self._heap: list[tuple[int, int, int, Node]] = []  # (-next use, -depth, serial, edge)
        self._serial = 0

    def run(self) -> int:
        computed = 0
        for number, call in enumerate(self._calls):
            if len(call.made) > self._pool:
                raise ValueError(f"a call of {len(call.made)} tokens, a pool of {self._pool}")
            computed += 1 + self._take(self._paths[number], number)
            self._take(self._path(call.made), number)
        return computed

    def _path(self, ids: Ids) -> list[Node]:
        return list(self._tree.path(self._tree.find(ids)[0]))[::-1]

    def _take(self, path: list[Node], number: int) -> int:
        """Have all of a path there; how many tokens were not."""
        missing = sum(len(edge.key) - self._there.get(edge, 0) for edge in path)
        self._make_room(missing, set(path), number)
        for edge in path:
            self._there[edge] = len(edge.key)
            self._queue(edge, number)
        self._total += missing
        return missing

    def _make_room(self, missing: int, held: set[Node], number: int) -> None:
        aside = []
        while (excess := self._total + missing - self._pool) > 0:
            entry = heapq.heappop(self._heap)
            next_use, edge = -entry[0], entry[3]
            if edge in held:
                aside.append(entry)
            elif next_use > number:  # else it was used since, and has a later entry
                count = min(excess, self._there[edge])
                self._there[edge] -= count
                self._total -= count
                if self._there[edge]:
                    aside.append(entry)
        for entry in aside:
            heapq.heappush(self._heap, entry)

    def _queue(self, edge: Node, number: int) -> None:
        self._serial += 1
        entry = (-self._next_use(edge, number), -edge.start, self._serial, edge)
        heapq.heappush(self._heap, entry)

    def _next_use(self, edge: Node, number: int) -> int:
        uses = self._uses.get(edge, [])
        place = bisect_right(uses, number)
        return uses[place] if place < len(uses) else _NEVER
