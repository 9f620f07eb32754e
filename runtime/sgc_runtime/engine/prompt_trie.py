"""All prompts of a run as one trie, to tell the best possible hit rate."""

from __future__ import annotations

import numpy as np

from sgc_runtime.cache.radix_tree import Ids, Node, RadixTree

_MADE = 1  # position whose KV a decode step or a choice's scoring made
_ASKED = 2  # added for each call whose prompt has the position


class PromptTrie:
    """Counts positions that even a perfect cache would have to prefill.

    optimal_hit_rate = 1 - C / (sum of prompt tokens), with C = distinct positions of all prompts
    that decode never made, plus 1 for each call that was wholly covered when it began (its last
    token is computed again for its logits).

    A call is one that gives a result: what was cancelled or failed is taken back. What it had
    computed counts as made, for others find it.

    Args:
        max_tokens: positions that are remembered; beyond them the rate is unknown (None).
    """

    def __init__(self, max_tokens: int) -> None:
        self._tree = RadixTree()
        self._max_tokens = max_tokens
        self._prompt_tokens = 0
        self._needed = 0
        self._covered = 0
        self._full = False

    def add_prompt(self, ids: Ids) -> bool:
        """A call with this prompt begins; whether it is wholly covered."""
        self._prompt_tokens += len(ids)
        if not len(ids) or self._is_full(len(ids)):
            return False
        marks = [node.slots for node in self._tree.path(self._add(ids))]
        new = sum(int(np.count_nonzero(m == 0)) for m in marks)
        self._needed += new
        self._covered += new == 0
        for m in marks:
            m += _ASKED
        return new == 0

    def take_back(self, ids: Ids, covered: bool) -> None:
        """A call that began with this prompt, and was `covered` then, gives no result."""
        self._prompt_tokens -= len(ids)
        if not len(ids) or self._full:
            return
        self._covered -= covered
        for node in self._tree.path(self._tree.match(ids)):
            node.slots -= _ASKED
            self._needed -= int(np.count_nonzero(node.slots == 0))

    def add_made(self, ids: Ids, start: int) -> None:
        """Others than prefills of calls made the KV of the positions `[start, len(ids))`."""
        if len(ids) <= start or self._is_full(len(ids)):
            return
        for node in self._tree.path(self._add(ids)):
            marks = node.slots[max(0, start - node.start) :]
            self._needed -= int(np.count_nonzero((marks >= _ASKED) & (marks & _MADE == 0)))
            marks |= _MADE
            if node.start <= start:
                break

    def optimal_hit_rate(self) -> float | None:
        """The rate, or None when nothing was asked or the trie is full."""
        if self._full or self._prompt_tokens == 0:
            return None
        return 1.0 - (self._needed + self._covered) / self._prompt_tokens

    def _is_full(self, more: int) -> bool:
        if not self._full and self._tree.cached + more > self._max_tokens:
            self._full, self._tree = True, RadixTree()
        return self._full

    def _add(self, ids: Ids) -> Node:
        return self._tree.insert(ids, np.zeros(len(ids), np.int64))[0]
