"""Counted and endless runs of characters of one set, over all tokens of a vocabulary.

What a token does inside `X{low,high}` depends on the counts only by comparison: it lies wholly in
the set and has so many characters, or it leaves the set behind so many. Both are found out once
for a set; a mask for any counts is then a comparison and a walk of the few tokens that leave.
"""

from __future__ import annotations

import functools
from functools import cached_property

import numpy as np

from sgc_ir.automata.utf8 import CharSet
from sgc_kernels.masks.select import Walks
from sgc_kernels.masks.trie_table import Bools, Int32, TrieTable

MOST_CHARACTERS = 65534  # of a token, that are told apart
_KEPT = 24  # masks of a set by the highest count
_KEPT_STARTS = 8  # sets of bytes that lead on from a run
_KEPT_NODES = 16384  # to which such a set leads


class RunTable:
    """One set of characters over one vocabulary, or what is behind one node of its trie.

    Args:
        trie: the tokens.
        walks: how the trie is walked.
        chars: the set.
        span: first node and the one behind the last, before which no character is begun.
    """

    def __init__(
        self, trie: TrieTable, walks: Walks, chars: CharSet, span: tuple[int, int]
    ) -> None:
        self._trie, self._walks, self._span = trie, walks, span
        self._bytes = char_table(chars)
        scan = walks.scan(trie, self._bytes, span, False)
        self._counts = scan.counts[: 32 * trie.num_words]
        self._within: dict[int, Int32] = {}
        self._leaving = _ByByte(trie, scan.nodes, scan.before)

    @property
    def num_bytes(self) -> int:
        kept = len(self._within) * 4 * self._trie.num_words
        return self._counts.nbytes + self._leaving.num_bytes + kept

    @cached_property
    def longest(self) -> int:
        """The most characters of the set with which a token begins."""
        counts = self._counts[self._counts <= MOST_CHARACTERS]
        return max(int(counts.max(initial=0)), self._leaving.longest)

    @cached_property
    def _all(self) -> _ByByte:
        """The nodes where a token leaves or could leave the set."""
        scan = self._walks.scan(self._trie, self._bytes, self._span, True)
        return _ByByte(self._trie, scan.nodes, scan.before)

    def within(self, high: int) -> Int32:
        """The mask of the tokens wholly in the set (a last character may be incomplete) that have
        at most `high` characters; one word more, for the walks."""
        high = min(high, self._trie.num_levels)  # no token has more
        words = self._within.get(high)
        if words is None:
            words = self._trie.empty_words()
            words[:-1] = np.packbits(self._counts <= high, bitorder="little").view(np.int32)
            if len(self._within) < _KEPT:
                self._within[high] = words
        return words

    def leaving(self, starts: Bools, low: int, high: int, apart: bool) -> Leaving:
        """The nodes behind a run of `low` to `high` characters.

        Args:
            starts: [256]: bytes that lead on from the run.
            apart: no character of the set begins with one of `starts`.
        """
        return (self._leaving if apart else self._all).select(starts).between(low, high)


class Leaving:
    """Where tokens leave a run.

    Attributes:
        spans: int32 [nodes, 3], not to be changed: node, the one behind its subtree, 0.
        before: int32 [nodes]: characters of the set before each.
    """

    def __init__(self, spans: Int32, before: Int32) -> None:
        self.spans, self.before = spans, before

    @classmethod
    def at(cls, trie: TrieTable, nodes: Int32, before: Int32) -> Leaving:
        spans = np.zeros((len(nodes), 3), np.int32)
        spans[:, 0], spans[:, 1] = nodes, trie.skip[nodes]
        return cls(spans, before)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """Least and most of `before`."""
        return int(self.before.min(initial=MOST_CHARACTERS)), int(self.before.max(initial=0))

    @cached_property
    def total(self) -> int:
        """How many nodes the spans have in all."""
        return int(self.spans[:, 1].sum()) - int(self.spans[:, 0].sum())

    def between(self, low: int, high: int) -> Leaving:
        """Those behind `low` to `high` characters."""
        least, most = self.counts
        if low <= least and high >= most:
            return self
        kept = self.before <= high
        if low > least:
            kept &= self.before >= low
        return self.where(kept)

    def where(self, kept: Bools) -> Leaving:
        return Leaving(self.spans[kept], self.before[kept])


class _ByByte:
    """Nodes and the number of characters before them, by the byte that leads to them."""

    def __init__(self, trie: TrieTable, nodes: Int32, before: Int32) -> None:
        data = (trie.edge[nodes] & 255).astype(np.uint8)
        order = np.argsort(data, kind="stable")
        self._trie = trie
        self._nodes, self._before = nodes[order], before[order]
        self._first = np.zeros(257, np.int64)
        np.cumsum(np.bincount(data, minlength=256), out=self._first[1:])
        self._known: dict[bytes, Leaving] = {}  # for the last few sets of bytes

    @property
    def num_bytes(self) -> int:
        kept = sum(found.spans.nbytes + found.before.nbytes for found in self._known.values())
        return self._nodes.nbytes + self._before.nbytes + kept

    @property
    def longest(self) -> int:
        """The highest number of characters."""
        return int(self._before.max(initial=0))

    def select(self, starts: Bools) -> Leaving:
        key = starts.tobytes()
        found = self._known.get(key)
        if found is None:
            found = self._select(starts)
            if len(found.before) <= _KEPT_NODES:
                while len(self._known) >= _KEPT_STARTS:
                    self._known.pop(next(iter(self._known)), None)
                self._known[key] = found
        return found

    def _select(self, starts: Bools) -> Leaving:
        apart = np.zeros(258, np.bool_)
        apart[1:257] = starts
        borders = np.flatnonzero(apart[1:] != apart[:-1])  # of ranges of bytes
        begins, ends = self._first[borders[::2]].tolist(), self._first[borders[1::2]].tolist()
        parts = [slice(*part) for part in zip(begins, ends, strict=True) if part[0] < part[1]]
        nodes = np.concatenate([self._nodes[:0], *(self._nodes[part] for part in parts)])
        before = np.concatenate([self._before[:0], *(self._before[part] for part in parts)])
        return Leaving.at(self._trie, nodes, before)


@functools.lru_cache(512)
def char_table(chars: CharSet) -> Int32:
    """int32 [states, 256]: the bytes of one character from state 0 on, to which its last byte
    leads back, in the form of the walks (`sgc_kernels.masks.reference.scan`)."""
    numbers = {chars.id: 0}
    sets = [chars]
    for inside in sets:
        for _, _, rest in inside.edges:
            if rest is not None and rest.id not in numbers:
                numbers[rest.id] = len(sets)
                sets.append(rest)
    table = np.full((len(sets), 256), -1, np.int32)
    for inside, row in zip(sets, table, strict=True):
        for low, high, rest in inside.edges:
            row[low : high + 1] = 1 if rest is None else numbers[rest.id] * 65536
    return table
