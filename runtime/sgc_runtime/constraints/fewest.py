"""How many tokens the shortest legal text of a constraint takes."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.automaton import Automaton
from sgc_ir.errors import ConstraintError
from sgc_kernels.masks.trie_table import UNKNOWN, Int32, TrieTable

_TOGETHER = 16  # states that are walked at once; more take more memory


class Fewest(NamedTuple):
    """A number of tokens, and whether it is the least or only known not to be more than it."""

    tokens: int
    exact: bool


def fewest_tokens(
    automaton: Automaton,
    trie: TrieTable,
    most: int | None = None,
    seconds: float = 1.0,
    states: int = 20_000,
) -> Fewest:
    """The length of the shortest token sequence whose text is legal: a shortest path, token by
    token, over the automaton's states.

    Sequences need not be canonical, so that no sequence that is can be shorter. States that
    remember texts count as their shapes, whose shortest text may be shorter as well.

    Args:
        most: stop where more than so many are needed.
        seconds: processor time after which the search ends with what it knows.
        states: the same for states that were reached.
    """
    end = time.thread_time() + seconds
    reached, exact = _shapes(automaton, {automaton.start})
    frontier = list(reached)
    count = 0
    try:
        while not any(automaton.is_accepting(state) for state in frontier):
            count += 1
            if (most is not None and count > most) or len(reached) > states:
                return Fewest(count, False)
            found: set[int] = set()
            for first in range(0, len(frontier), _TOGETHER):
                if time.thread_time() > end:
                    return Fewest(count, False)
                found |= _behind_one_token(automaton, trie, frontier[first : first + _TOGETHER])
            found, plain = _shapes(automaton, found)
            exact &= plain
            frontier = sorted(found - reached)
            reached |= found
            if not frontier:  # no tokens spell what is legal
                return Fewest(count, False)
    except ConstraintError:  # it has grown to its limits
        return Fewest(count, False)
    return Fewest(count, exact)


def _shapes(automaton: Automaton, states: set[int]) -> tuple[set[int], bool]:
    """`states`, or their shapes; and whether none of them remembers texts."""
    recalls = {state: automaton.recalls(state) for state in states}
    found = {state if recall is None else recall.shape for state, recall in recalls.items()}
    return found, all(recall is None for recall in recalls.values())


def _behind_one_token(automaton: Automaton, trie: TrieTable, states: list[int]) -> set[int]:
    """The states that one token leads to from any of `states`: the trie, level by level."""
    first, child = trie.children
    nodes: npt.NDArray[np.int64] = np.full(len(states), trie.num_nodes, np.int64)
    here: npt.NDArray[np.int64] = np.array(states, np.int64)
    found: set[int] = set()
    while len(nodes):
        counts = first[nodes + 1] - first[nodes]
        begins = np.repeat(first[nodes] - (np.cumsum(counts) - counts), counts)
        nodes = child[begins + np.arange(len(begins))].astype(np.int64)
        here = _steps(automaton, np.repeat(here, counts), trie.edge[nodes] & 255)
        alive = here >= 0
        nodes, here = nodes[alive], here[alive]
        found.update(np.unique(here[trie.token[nodes] != trie.no_token]).tolist())
        key = np.unique(nodes * (automaton.num_states + 1) + here)
        nodes, here = key // (automaton.num_states + 1), key % (automaton.num_states + 1)
    return found


def _steps(
    automaton: Automaton, states: npt.NDArray[np.int64], edges: Int32
) -> npt.NDArray[np.int64]:
    """The state behind one byte, for each pair."""
    following = automaton.rows[automaton.row_of[states], edges]
    for state in np.unique(states[following == UNKNOWN]).tolist():
        automaton.expand(state)
    found: npt.NDArray[np.int64] = automaton.rows[automaton.row_of[states], edges].astype(np.int64)
    return found
