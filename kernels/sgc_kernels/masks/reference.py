"""Token masks in NumPy, one level of the trie after another: what compiled code is tested against,
and what runs where there is none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sgc_kernels.masks.trie_table import (
    NEVER,
    UNKNOWN,
    Bools,
    Int32,
    RunScan,
    Takes,
    Transitions,
    TrieTable,
    takes_nothing,
)


def walk(
    trie: TrieTable,
    transitions: Transitions,
    spans: Int32,
    words: Int32,
    takes: Takes = takes_nothing,
) -> None:
    """Allow every token that the automaton can go on with.

    Args:
        trie: the tokens.
        transitions: the automaton; rows that are not known yet are made on the way.
        spans: int32 [spans, 3]: first node, node behind the last, and the state before the first
            node; the nodes of one depth in a span are siblings.
        words: int32 [num_words + 1]: the mask, in which bits are set.
        takes: an offer of the compiled walk, which leaves subtrees to others; not made here.
    """
    first, child = trie.children
    bits = np.zeros(32 * len(words), np.bool_)
    for begin, end, state in spans.tolist():
        nodes = _siblings(trie, begin, end)
        states = np.full(len(nodes), state, np.int32)
        while len(nodes):
            following = _step(transitions, states, trie.edge[nodes] & 255)
            alive = following >= 0
            nodes, states = nodes[alive], following[alive]
            bits[trie.token[nodes]] = True
            number = first[nodes + 1] - first[nodes]
            nodes, states = _below(nodes, number, first, child), np.repeat(states, number)
    words |= np.packbits(bits, bitorder="little").view(np.int32)
    copy_aliases(trie, words)


def _siblings(trie: TrieTable, begin: int, end: int) -> Int32:
    found = []
    while begin < end:
        found.append(begin)
        begin = int(trie.skip[begin])
    return np.array(found, np.int32)


def _below(nodes: Int32, number: Int32, first: Int32, child: Int32) -> Int32:
    """The children of all `nodes`, in order."""
    ends = np.cumsum(number)
    inside = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - number, number)
    found: Int32 = child[np.repeat(first[nodes], number) + inside]
    return found


def _step(transitions: Transitions, states: Int32, data: Int32) -> Int32:
    following: Int32 = transitions.rows[transitions.row_of[states], data]
    unknown = np.unique(states[following == UNKNOWN])
    for state in unknown.tolist():
        transitions.expand(state)
    return transitions.rows[transitions.row_of[states], data] if len(unknown) else following


def copy_aliases(trie: TrieTable, words: Int32) -> None:
    """Allow tokens that have the same bytes as an allowed one."""
    token, other = trie.aliases[:, 0], trie.aliases[:, 1]
    other = other[(words[token >> 5] >> (token & 31)) & 1 == 1]
    np.bitwise_or.at(words, other >> 5, (np.uint32(1) << (other & 31).astype(np.uint32)).view("i4"))


def scan(trie: TrieTable, table: Int32, span: tuple[int, int], going_on: bool) -> RunScan:
    """Follow a set of characters, again and again, through every token.

    Args:
        trie: the tokens.
        table: int32 [states, 256]: the bytes of one character of the set from state 0, to which
            its last byte leads back: next state * 65536, one more where the character is
            complete; negative: not in the set.
        span: first node and the one behind the last, before which no character is begun.
        going_on: whether `nodes` holds those where the set goes on, too.
    """
    first, child = trie.children
    counts = np.full(32 * (trie.num_words + 1), NEVER, np.uint16)
    nodes = _siblings(trie, *span)
    states, before = np.zeros(len(nodes), np.int32), np.zeros(len(nodes), np.int32)
    found: list[tuple[Int32, Int32]] = []
    while len(nodes):
        following = table[states, trie.edge[nodes] & 255] >> 16
        alive = following >= 0
        kept = (states == 0) & (~alive | going_on)
        found.append((nodes[kept], before[kept]))
        nodes, states, before = nodes[alive], following[alive], before[alive]
        counts[trie.token[nodes]] = before + 1
        number = first[nodes + 1] - first[nodes]
        nodes = _below(nodes, number, first, child)
        before, states = np.repeat(before + (states == 0), number), np.repeat(states, number)
    counts[trie.aliases[:, 1]] = counts[trie.aliases[:, 0]]
    return _in_order(counts, found)


def run(
    trie: TrieTable,
    table: Int32,
    spans: Int32,
    counts: tuple[int, int],
    starts: Bools,
    going_on: bool,
    words: Int32,
) -> tuple[Int32, Int32]:
    """Allow the tokens that lie wholly in a run of some characters. Aliases are left to the walk of
    what leaves the run.

    Args:
        table, going_on: as for `scan`.
        spans: int32 [spans, 2], each as for `scan`, in order.
        counts: least and most characters of the run; tokens may have fewer.
        starts: [256]: bytes that lead on from the run.
        words: int32 [num_words + 1]: the mask, in which bits are set.

    Returns:
        Nodes to which one of `starts` leads and the characters before each, as in `RunScan`, where
        those are in `counts`.
    """
    low, high = counts
    first, child = trie.children
    nodes = np.concatenate(
        [np.zeros(0, np.int32), *(_siblings(trie, *span) for span in spans.tolist())]
    )
    states, before = np.zeros(len(nodes), np.int32), np.zeros(len(nodes), np.int32)
    bits = np.zeros(32 * len(words), np.bool_)
    found: list[tuple[Int32, Int32]] = []
    while len(nodes):
        following = table[states, trie.edge[nodes] & 255] >> 16
        kept = (states == 0) & ((following < 0) | going_on) & (before >= low)
        kept &= starts[trie.edge[nodes] & 255]
        found.append((nodes[kept], before[kept]))
        alive = (following >= 0) & (before < high)
        nodes, states, before = nodes[alive], following[alive], before[alive]
        bits[trie.token[nodes]] = True
        number = first[nodes + 1] - first[nodes]
        nodes = _below(nodes, number, first, child)
        before, states = np.repeat(before + (states == 0), number), np.repeat(states, number)
    words |= np.packbits(bits, bitorder="little").view(np.int32)
    leaving = _in_order(np.zeros(0, np.uint16), found)
    return leaving.nodes, leaving.before


def _in_order(counts: npt.NDArray[np.uint16], found: list[tuple[Int32, Int32]]) -> RunScan:
    nothing = np.zeros(0, np.int32)
    nodes = np.concatenate([nothing, *(nodes for nodes, _ in found)])
    before = np.concatenate([nothing, *(before for _, before in found)])
    order = np.argsort(nodes, kind="stable")
    return RunScan(counts, nodes[order], before[order])
