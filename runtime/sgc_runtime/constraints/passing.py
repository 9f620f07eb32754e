"""Masks where characters of one set may be split into groups in many ways (`automata.through`)."""

from __future__ import annotations

import numpy as np

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.through import Through
from sgc_ir.automata.utf8 import CharSet
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.run_tables import RunTable
from sgc_runtime.constraints.vocabulary import Vocabulary

Span = tuple[int, int]  # first node of the trie, and the one behind the last


class Passing:
    """Characters of a set that lead from state to state, over one vocabulary.

    A token that lies wholly in the set is legal where the states go on for as many characters; of
    the others, only what is behind such characters is walked.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._taken: dict[int, bool] = {}

    def takes(self, state: int) -> bool:
        """Whether `state` leads on by characters that may be split in many ways."""
        taken = self._taken.get(state)
        if taken is None:
            taken = self._automaton.through(state, lambda chars: 0) is not None
            self._taken[state] = taken
        return taken

    def leave(self, state: int, span: Span, words: Int32) -> Int32:
        """Allow what lies in the set, and the first byte of anything else.

        Returns:
            int32 [spans, 3]: what is below that byte, and the state there, for the walk.
        """
        known = self._find(state, span)
        if known is None:  # something else begins with some of the characters later
            self._taken[state] = False
            return np.array([[*span, state]], np.int32)
        (chars, starts, others), table = known
        first_bytes = np.zeros(256, np.bool_)
        for low, high in starts:
            first_bytes[low : high + 1] = True
        apart = not any(first_bytes[low : high + 1].any() for low, high, _ in chars.edges)
        words |= table.within(len(others) - 1)
        leaving = table.leaving(first_bytes, 0, len(others) - 1, apart)
        found = leaving.spans.copy()
        trie = self._vocabulary.trie.table
        steps = leaving.before * 256 + (trie.edge[found[:, 0]] & 255)
        behind = np.full(int(steps.max(initial=0)) + 1, -1, np.int32)
        for step in np.flatnonzero(np.bincount(steps)).tolist():
            other = others[step >> 8]
            if other is not None:
                behind[step] = self._automaton.step(other, step & 255)
        found[:, 2] = behind[steps]
        found = found[found[:, 2] >= 0]
        tokens = trie.token[found[:, 0]]
        bits = np.left_shift(np.uint32(1), (tokens & 31).astype(np.uint32)).view(np.int32)
        np.bitwise_or.at(words, tokens >> 5, bits)
        found[:, 0] += 1
        return found[found[:, 0] < found[:, 1]]

    def _find(self, state: int, span: Span) -> tuple[Through, RunTable] | None:
        tables: list[RunTable] = []

        def longest(chars: CharSet) -> int:
            tables.append(self._vocabulary.run_table(chars, span))
            return tables[0].longest

        found = self._automaton.through(state, longest)
        return None if found is None else (found, tables[0])
