"""Masks of states that remember texts: those of their shapes, but for what the texts exclude."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.recorded import Recall
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.token_trie import TokenTrie

_LAST = frozenset(b'"0123456789}]el')  # bytes that a JSON value ends with


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Tokens that go beyond a separator, by whether something stands before it."""

    behind_text: Int32
    at_once: Int32


_crossing: WeakKeyDictionary[TokenTrie, dict[bytes, _Crossing]] = WeakKeyDictionary()  # few


class RecordedMasks:
    """Corrects masks of one automaton over one vocabulary; not safe for threads.

    A token that the shape allows is excluded where a remembered text ends in it, or begins before
    it and leaves nothing else. So the trie is walked only where the text so far begins one of
    those remembered, and the few tokens that go beyond a separator are tried.
    """

    def __init__(self, automaton: Automaton, trie: TokenTrie) -> None:
        self._automaton, self._trie = automaton, trie

    def correct(self, state: int, recall: Recall, words: Int32) -> Int32:
        """The mask in `state`.

        Args:
            recall: what it remembers.
            words: the mask of its shape.
        """
        excluded = self._tried(state, recall, words)
        if recall.doubtful is None or recall.doubtful:
            excluded += self._walked(state, recall.shape)
        if not excluded:
            return words
        kept = np.unpackbits(words.view(np.uint8), bitorder="little")
        table = self._trie.table
        tokens = np.concatenate(excluded)
        kept[tokens[tokens < table.no_token]] = 0
        kept[table.aliases[:, 1]] = kept[table.aliases[:, 0]]
        found = np.packbits(kept, bitorder="little").view(np.int32)
        found.setflags(write=False)
        return found

    def _tried(self, state: int, recall: Recall, words: Int32) -> list[Int32]:
        """Tokens that go beyond a separator, and must not."""
        found = []
        for separator in recall.separators:
            crossing = _beyond(self._trie, separator)
            groups = [crossing.behind_text] + ([crossing.at_once] if recall.ends else [])
            for tokens in groups:
                allowed = tokens[words[tokens >> 5] >> (tokens & 31) & 1 == 1]
                dead = [t for t in allowed.tolist() if self._is_dead(state, t)]
                if dead:
                    found.append(np.array(dead, np.int32))
        return found

    def _is_dead(self, state: int, token: int) -> bool:
        return self._automaton.walk(state, self._trie.tokens[token]) == DEAD

    def _walked(self, state: int, shape: int) -> list[Int32]:
        """Tokens whose text is excluded along the texts that are remembered."""
        automaton, table = self._automaton, self._trie.table
        first, child = table.children
        found, stack = [], [(table.num_nodes, state, shape)]
        while stack:
            node, here, alike = stack.pop()
            children, row = child[first[node] : first[node + 1]], automaton.row(alike)
            data = table.edge[children] & 255
            asked = row[data] != DEAD
            doubtful = automaton.doubtful(here)
            if doubtful is not None:
                asked &= np.isin(data, list(doubtful))
            for below, byte in zip(children[asked].tolist(), data[asked].tolist(), strict=True):
                after, like = automaton.step(here, byte), int(row[byte])
                if after == DEAD:
                    found.append(table.token[below : table.skip[below]])
                elif after != like:
                    stack.append((below, after, like))
        return found


def _beyond(trie: TokenTrie, separator: bytes) -> _Crossing:
    known = _crossing.setdefault(trie, {})
    found = known.get(separator)
    if found is None:
        behind, at_once = [], []
        for token in trie.holding(separator):
            data = trie.tokens[token]
            if data.startswith(separator) and len(data) > len(separator):
                at_once.append(token)
            if _is_behind_text(data, separator):
                behind.append(token)
        found = known[separator] = _Crossing(
            np.array(behind, np.int32), np.array(at_once, np.int32)
        )
    return found


def _is_behind_text(data: bytes, separator: bytes) -> bool:
    """Whether a separator stands behind the end of a value, and before more."""
    at = data.find(separator, 1)
    while 0 <= at < len(data) - len(separator):
        if data[at - 1] in _LAST:
            return True
        at = data.find(separator, at + 1)
    return False
