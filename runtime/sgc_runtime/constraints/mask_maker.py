"""How a mask is made: runs of characters by their counts, everything else by a walk of the trie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.automaton import Automaton, CharRun
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.run_tables import MOST_CHARACTERS, char_table
from sgc_runtime.constraints.vocabulary import Vocabulary

# Nodes below which a run inside the trie is walked state by state.
_FEW_NODES = 100
# The same for sets with many edges, whose states take long to make.
_FEW_NODES_OF_WIDE = 24
_WIDE = 20
_MANY_NODES = 8192  # from which on a table of the set is made
_MANY_BYTES = 64  # that lead on, from which on a like state is looked for
_FEW_BYTES = 16  # for which it may go on otherwise


Known = Callable[[int], Int32]


@dataclass(frozen=True, slots=True)
class _Place:
    """A state that stands before a run, and the spans of nodes [first, behind) that come then."""

    state: int
    run: CharRun
    spans: list[tuple[int, int]]


class MaskMaker:
    """Makes masks of one automaton over one vocabulary; not safe for threads.

    In a state before `X{low,high}` a token is legal where it lies wholly in X and has at most
    `high` characters, or where it leaves X and the automaton goes on with what is left of it.
    Only the latter are walked, from the nodes of the trie where a run of X breaks. The same is
    done below nodes that lead into such a state, so that its counts need no states of their own.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self._automaton = automaton
        self._vocabulary = vocabulary
        self._trie = vocabulary.trie.table
        self._places: dict[int, _Place] = {}
        self._spans: list[tuple[int, int, int]] = []
        self._parts: dict[int, list[tuple[int, CharRun | None]]] = {}
        self._walked: set[int] = set()  # states before runs that are walked nevertheless

    def make(self, state: int, known: Known) -> Int32:
        """The mask in `state`.

        Args:
            known: gives the masks of other states.
        """
        words = self._trie.empty_words()
        self._places, self._spans = {}, []
        if not self._takes(state, 0, self._trie.num_nodes):
            like = self._like(state)
            if like is None:
                self._spans.append((0, self._trie.num_nodes, state))
            else:
                other, differing = like
                words[:-1] = known(other)
                for byte in differing:
                    words &= self._trie.without(byte)
                self._spans = [(*self._trie.first_bytes[byte], state) for byte in differing]
        self._walk(words)
        return words[:-1]

    def _like(self, state: int) -> tuple[int, list[int]] | None:
        """A state before a run that goes on as `state` does behind most bytes, and the bytes that
        tokens begin with for which it does not: inside a name that must not be one of some, most
        bytes lead to where any name may follow."""
        row = self._automaton.row(state)
        alive = row[row >= 0]
        if len(alive) < _MANY_BYTES:
            return None
        following, counts = np.unique(alive, return_counts=True)
        other = int(following[counts.argmax()])
        if other == state or self._parts_of(other)[0][1] is None or other in self._walked:
            return None
        differing = np.flatnonzero(row != self._automaton.row(other)).tolist()
        spans = self._trie.first_bytes
        differing = [byte for byte in differing if byte in spans]
        nodes = sum(spans[byte][1] - spans[byte][0] for byte in differing)
        few = len(differing) <= _FEW_BYTES and 2 * nodes < self._trie.num_nodes
        return (other, differing) if few else None

    def _walk(self, words: Int32) -> None:
        """Allow what the places and spans that are noted lead to."""
        while self._spans or self._places:
            places, spans = list(self._places.values()), np.array(self._spans, np.int32)
            self._places, self._spans = {}, []
            leaving = [self._leave(place, words) for place in places]
            spans = np.concatenate([spans.reshape(-1, 3), *leaving])
            self._vocabulary.walks.walk(self._trie, self._automaton, spans, words, self._takes)

    def _takes(self, state: int, first: int, behind: int) -> bool:
        """Whether the nodes below one that led to `state` are looked at as runs."""
        size = behind - first
        if size < _FEW_NODES_OF_WIDE or state in self._walked:
            return False
        parts = self._parts_of(state)
        run = parts[0][1]
        if run is None or (size < _FEW_NODES and len(run.chars.edges) < _WIDE):
            return False
        for part, run in parts:
            if run is None or part in self._walked:
                self._spans.append((first, behind, part))
                continue
            place = self._places.get(part)
            if place is None:
                place = self._places[part] = _Place(part, run, [])
            place.spans.append((first, behind))
        return True

    def _parts_of(self, state: int) -> list[tuple[int, CharRun | None]]:
        """The states into which `state` parts, each with the run before which it stands, where
        it is one of which that can be said; such ones come first."""
        known = self._parts.get(state)
        if known is None:
            known = []
            for part in self._automaton.parts(state):
                run = self._automaton.run(part)
                known.append((part, run if run is not None and (run.plain or run.apart) else None))
            known.sort(key=lambda item: item[1] is None)
            self._parts[state] = known
        return known

    def _leave(self, place: _Place, words: Int32) -> Int32:
        """Allow what lies in the run.

        Returns:
            int32 [spans, 3]: what leaves it, for the walk.
        """
        run = place.run
        starts, others = self._automaton.row(run.rest) >= 0, np.zeros(256, np.bool_)
        for first, last in run.others:
            others[first : last + 1] = True
        low = 0 if run.others else run.low
        nodes, before = self._within(place, starts | others, low, words)
        inside = others[self._trie.edge[nodes] & 255]
        kept = inside | (before >= run.low)
        nodes, before, inside = nodes[kept], before[kept], inside[kept]
        ends = self._trie.skip[nodes]
        spans = np.array(place.spans, np.int32)
        if (ends - nodes).sum() > 2 * (spans[:, 1] - spans[:, 0]).sum():
            self._walked.add(place.state)
            return np.column_stack([spans, np.full(len(spans), place.state)]).astype(np.int32)
        states = np.full(len(nodes), run.rest, np.int32)
        if run.others:
            states[inside] = self._behind(place, before[inside])
        return np.stack([nodes, ends, states], 1).astype(np.int32)

    def _within(
        self, place: _Place, starts: npt.NDArray[np.bool_], low: int, words: Int32
    ) -> tuple[Int32, Int32]:
        """Allow what lies in the run; the nodes that leave it, and the characters before each."""
        run = place.run
        high = MOST_CHARACTERS if run.high is None else min(run.high, MOST_CHARACTERS)
        (first, behind), *more = place.spans
        if not more and behind - first >= _MANY_NODES:
            table = self._vocabulary.run_table(run.chars, (first, behind))
            words |= table.within(high)
            return table.leaving(starts, low, high, run.apart)
        spans = np.array(place.spans, np.int32)
        nodes, before = self._vocabulary.walks.run(
            self._trie, char_table(run.chars), spans, high, not run.apart, words
        )
        kept = (before >= low) & starts[self._trie.edge[nodes] & 255]
        return nodes[kept], before[kept]

    def _behind(self, place: _Place, before: Int32) -> Int32:
        """The states behind `before` characters of the run, where something else may come."""
        counts, which = np.unique(before, return_inverse=True)
        states = self._automaton.behind(place.state, counts.tolist())
        found: Int32 = np.array(states, np.int32)[which]
        return found
