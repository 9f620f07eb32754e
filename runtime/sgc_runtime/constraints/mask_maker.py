"""How a mask is made: runs of characters by their counts, everything else by a walk of the trie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.char_runs import CharRun
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.passing import Passing
from sgc_runtime.constraints.run_tables import MOST_CHARACTERS, Leaving, char_table
from sgc_runtime.constraints.vocabulary import Vocabulary

# Nodes below which a run inside the trie is walked state by state.
_FEW_NODES = 100
_FEW_NODES_OF_WIDE = 24  # the same for sets with many edges, whose states take long to make,
_WIDE = 20
_FEW_NODES_OF_COUNTED = 12  # for counted runs, which have a state for each count,
_FEW_NODES_MORE = 6  # and where the run is looked at elsewhere anyway
_MANY_NODES = 8192  # from which on a table of the set is made
_MANY_BYTES = 64  # that lead on, from which on a like state is looked for
_FEW_BYTES = 16  # for which it may go on otherwise


Known = Callable[[int], Int32]


@dataclass(frozen=True, slots=True)
class _Place:
    """A state that stands before a run, and the spans of nodes [first, behind) that come then, one
    after the other."""

    state: int
    run: CharRun
    spans: list[int]


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
        self._longest = self._trie.num_levels
        self._places: dict[int, _Place] = {}
        self._spans: list[tuple[int, int, int]] = []
        self._passing = Passing(automaton, vocabulary)
        self._passed: list[tuple[int, tuple[int, int]]] = []  # states, and what comes then
        self._parts: dict[int, list[tuple[int, CharRun | None]]] = {}
        self._walked: set[int] = set()  # states before runs that are walked nevertheless
        self._plain: set[int] = set()  # states that stand before no run

    def make(self, state: int, known: Known) -> Int32:
        """The mask in `state`.

        Args:
            known: gives the masks of other states.
        """
        words = self._trie.empty_words()
        self._places, self._spans, self._passed = {}, [], []
        if not (self._takes(state, 0, self._trie.num_nodes) or self._beyond(state, known, words)):
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

    def _beyond(self, state: int, known: Known, words: Int32) -> bool:
        """Whether `state` is known to go on, but behind some words, as a state before a run; then
        allow what that one allows, and note what follows the words instead."""
        trie = self._vocabulary.trie
        found = self._automaton.beyond(state, lambda word: trie.node(word) >= 0)
        if found is None or not self._is_run(found[0], self._trie.num_nodes):
            return False
        other, behind = found
        words[:-1] = known(other)
        for word, after in behind:
            node = trie.node(word)
            self._trie.clear(words, node, int(self._trie.skip[node]))
            if after >= 0:
                token = int(self._trie.token[node])
                words[token >> 5] |= np.int32(np.uint32(1 << (token & 31)).view(np.int32))
                self._spans.append((node + 1, int(self._trie.skip[node]), after))
        return True

    def _like(self, state: int) -> tuple[int, list[int]] | None:
        """A state before a run that goes on as `state` does behind most bytes, and the bytes that
        tokens begin with for which it does not: inside a name that must not be one of some, most
        bytes lead to where any name may follow."""
        other, differing = self._automaton.like(state) or self._like_most(state)
        if other == state or not self._is_run(other, self._trie.num_nodes):
            return None
        spans = self._trie.first_bytes
        differing = [byte for byte in differing if byte in spans]
        nodes = sum(spans[byte][1] - spans[byte][0] for byte in differing)
        few = len(differing) <= _FEW_BYTES and 2 * nodes < self._trie.num_nodes
        return (other, differing) if few else None

    def _like_most(self, state: int) -> tuple[int, list[int]]:
        """The state to which most bytes lead, as it may go on like `state`; else `state`."""
        row = self._automaton.row(state)
        alive = row[row >= 0]
        if len(alive) < _MANY_BYTES:
            return state, []
        other = int(np.bincount(alive).argmax())
        if other == state or not self._is_run(other, self._trie.num_nodes):
            return state, []
        return other, np.flatnonzero(row != self._automaton.row(other)).tolist()

    def _walk(self, words: Int32) -> None:
        """Allow what the places and spans that are noted lead to."""
        while self._spans or self._places or self._passed:
            places, spans = list(self._places.values()), np.array(self._spans, np.int32)
            passed = self._passed
            self._places, self._spans, self._passed = {}, [], []
            leaving = [self._leave(place, words) for place in places]
            leaving += [self._pass(*one, words) for one in passed]
            spans = np.concatenate([spans.reshape(-1, 3), *leaving])
            self._vocabulary.walks.walk(self._trie, self._automaton, spans, words, self._takes)

    def _pass(self, state: int, span: tuple[int, int], words: Int32) -> Int32:
        """The same where characters may be split in many ways; what is large below others is looked
        at so again."""
        found = self._passing.leave(state, span, words)
        large = np.flatnonzero(found[:, 1] - found[:, 0] >= _MANY_NODES).tolist()
        taken = [i for i in large if self._takes(int(found[i, 2]), *found[i, :2].tolist())]
        return np.delete(found, taken, axis=0) if taken else found

    def _takes(self, state: int, first: int, behind: int) -> bool:
        """Whether the nodes below one that led to `state` are looked at as runs."""
        place = self._places.get(state)
        if place is not None and behind - first >= _FEW_NODES_MORE:
            place.spans.extend((first, behind))  # as most are: one run below many nodes
            return True
        if behind - first >= _MANY_NODES and self._passing.takes(state):
            self._passed.append((state, (first, behind)))
            return True
        if not self._is_run(state, behind - first):
            return False
        for part, run in self._parts_of(state):
            if run is None or part in self._walked:
                self._spans.append((first, behind, part))
                continue
            place = self._places.get(part)
            if place is None:
                place = self._places[part] = _Place(part, run, [])
            place.spans.extend((first, behind))
        return True

    def _is_run(self, state: int, size: int) -> bool:
        """Whether so many nodes below `state` are looked at as runs."""
        if size < _FEW_NODES_MORE or state in self._walked or state in self._plain:
            return False
        run = self._parts_of(state)[0][1]
        if run is None:
            self._plain.add(state)
            return False
        return size >= _least_nodes(run) or state in self._places

    def _parts_of(self, state: int) -> list[tuple[int, CharRun | None]]:
        """The states into which `state` parts, each with the run before which it stands, where
        it is one of which that can be said; such ones come first."""
        known = self._parts.get(state)
        if known is None:
            known = []
            for part in self._automaton.parts(state):
                run = self._automaton.run(part)
                if run is not None and max(run.low, run.high or 0) > self._longest:
                    part = self._automaton.near(part, self._longest)  # no token reaches the count
                    run = self._automaton.run(part)
                known.append((part, run if run is not None and (run.plain or run.apart) else None))
            if len(known) > 1:
                known.sort(key=lambda item: item[1] is None)
            if known[0][1] is not None:
                self._parts[state] = known
        return known

    def _leave(self, place: _Place, words: Int32) -> Int32:
        """Allow what lies in the run.

        Returns:
            int32 [spans, 3]: what leaves it, for the walk.
        """
        run = place.run
        starts = self._automaton.row(run.rest) >= 0
        if not run.others:
            leaving = self._within(place, starts, run.low, words)
            inside = None
        else:
            others = np.zeros(256, np.bool_)
            for first, last in run.others:
                others[first : last + 1] = True
            leaving = self._within(place, starts | others, 0, words)
            inside = others[self._trie.edge[leaving.spans[:, 0]] & 255]
            if run.low:
                kept = inside | (leaving.before >= run.low)
                leaving, inside = leaving.where(kept), inside[kept]
        nodes = sum(place.spans[1::2]) - sum(place.spans[::2])
        if not run.apart and leaving.total > 2 * nodes:  # else they lie beside each other
            self._walked.add(place.state)
            spans = np.array(place.spans, np.int32).reshape(-1, 2)
            return np.insert(spans, 2, place.state, axis=1)
        found = leaving.spans.copy()
        found[:, 2] = run.rest
        if inside is not None:
            self._go_on(place, found, inside, leaving.before, words)
        return found

    def _within(
        self, place: _Place, starts: npt.NDArray[np.bool_], low: int, words: Int32
    ) -> Leaving:
        """Allow what lies in the run; where it is left."""
        run = place.run
        high = MOST_CHARACTERS if run.high is None else min(run.high, MOST_CHARACTERS)
        first, behind, *more = place.spans
        if not more and behind - first >= _MANY_NODES:
            table = self._vocabulary.run_table(run.chars, (first, behind))
            words |= table.within(high)
            return table.leaving(starts, low, high, run.apart)
        spans = np.array(place.spans, np.int32).reshape(-1, 2)
        nodes, before = self._vocabulary.walks.run(
            self._trie, char_table(run.chars), spans, (low, high), starts, not run.apart, words
        )
        return Leaving.at(self._trie, nodes, before)

    def _go_on(
        self,
        place: _Place,
        found: Int32,
        inside: npt.NDArray[np.bool_],
        before: Int32,
        words: Int32,
    ) -> None:
        """Where something else may come in the run: allow the first byte of that, and set in
        `found` what is below it, and the state there. The state before it needs no row so, where
        there is one for each count."""
        automaton, nodes, counts = self._automaton, found[inside, 0], before[inside]
        low = place.run.low
        if low <= 1 and place.run.high is None:  # two states at most, which texts reach as well
            after = automaton.behind(place.state, [low])[0]
            found[inside, 2] = np.where(counts < low, place.state, after)
            return
        if place.run.high is None:  # behind `low` characters it is the same for all
            counts = np.minimum(counts, low)
        steps = counts * 256 + (self._trie.edge[nodes] & 255)
        used = np.flatnonzero(np.bincount(steps))
        states = automaton.behind(place.state, (used >> 8).tolist())
        steps_of = zip(states, (used & 255).tolist(), strict=True)
        behind = np.zeros(int(steps.max(initial=0)) + 1, np.int32)
        behind[used] = [automaton.step(*one) for one in steps_of]
        after = behind[steps]
        tokens = self._trie.token[nodes[after >= 0]]
        bits = np.left_shift(np.uint32(1), (tokens & 31).astype(np.uint32)).view(np.int32)
        np.bitwise_or.at(words, tokens >> 5, bits)
        found[inside, 0] = np.where(after >= 0, nodes + 1, found[inside, 1])
        found[inside, 2] = after


def _least_nodes(run: CharRun) -> int:
    if run.high is not None or run.low > 1:
        return _FEW_NODES_OF_COUNTED
    return _FEW_NODES_OF_WIDE if len(run.chars.edges) >= _WIDE else _FEW_NODES
