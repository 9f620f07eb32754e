"""The contract of token masks: a trie of tokens as flat arrays, an automaton's transitions, masks.

A mask is int32 words, bit t % 32 of word t // 32 for token t, 1 = allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

UNKNOWN = -2  # a transition that `Transitions.expand` has still to make; below 0 else: none

Int32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class Transitions(Protocol):
    """An automaton as the walk sees it.

    Attributes:
        rows: int32 [rows, 256]: next state, `UNKNOWN` or another negative number for none;
            `expand` may replace it.
        row_of: int32 [capacity]: the row of each state; `expand` may replace it.
    """

    rows: Int32
    row_of: Int32

    def expand(self, state: int) -> None:
        """Make the row of `state`."""


# Whether somebody else looks at the nodes [first, behind) below a node that led to a state whose
# row is unknown: (state, first, behind).
Takes = Callable[[int, int, int], bool]


def takes_nothing(state: int, first: int, behind: int) -> bool:
    return False


@dataclass(frozen=True)
class TrieTable:
    """The trie of all tokens' bytes, its nodes in depth-first order, without the root.

    Attributes:
        edge: int32 [nodes]: depth (0: first byte of a token) * 256 + byte that leads here.
        skip: int32 [nodes]: the node behind this one's subtree.
        token: int32 [nodes]: the token that ends here; `no_token` where none does.
        aliases: int32 [pairs, 2]: a token of `token` and another one with the same bytes.
        num_words: words of a mask.
    """

    edge: Int32
    skip: Int32
    token: Int32
    aliases: Int32
    num_words: int

    @property
    def num_nodes(self) -> int:
        return len(self.edge)

    @property
    def no_token(self) -> int:
        """The first bit behind the mask, so that a walk sets a bit at every node."""
        return 32 * self.num_words

    @cached_property
    def num_levels(self) -> int:
        """Bytes of the longest token."""
        return int(self.edge.max(initial=-1) >> 8) + 1

    @cached_property
    def children(self) -> tuple[Int32, Int32]:
        """(first [nodes + 2], child [nodes]): the children of node i, and those of the root at
        i = nodes, are `child[first[i] : first[i + 1]]`."""
        depth = self.edge >> 8
        parent = np.full(self.num_nodes, self.num_nodes, np.int32)
        above = np.zeros(0, np.int64)
        for level in range(self.num_levels):
            here = np.flatnonzero(depth == level)
            if level:
                parent[here] = above[np.searchsorted(above, here) - 1]
            above = here
        child = np.argsort(parent, kind="stable").astype(np.int32)
        first = np.zeros(self.num_nodes + 2, np.int32)
        np.cumsum(np.bincount(parent, minlength=self.num_nodes + 1), out=first[1:])
        return first, child

    @cached_property
    def first_bytes(self) -> dict[int, tuple[int, int]]:
        """For each byte that a token begins with, the span of nodes [first, behind)."""
        nodes = np.flatnonzero(self.edge < 256)
        return {
            byte: (node, behind)
            for byte, node, behind in zip(
                self.edge[nodes].tolist(), nodes.tolist(), self.skip[nodes].tolist(), strict=True
            )
        }

    @cached_property
    def _without(self) -> dict[int, Int32]:
        return {}

    def without(self, byte: int) -> Int32:
        """int32 [num_words + 1]: all bits but those of the tokens that begin with `byte`."""
        words = self._without.get(byte)
        if words is None:
            first, behind = self.first_bytes[byte]
            kept = np.ones(32 * (self.num_words + 1), np.bool_)
            kept[self.token[first:behind]] = False
            kept[self.aliases[:, 1]] = kept[self.aliases[:, 0]]
            words = self._without[byte] = np.packbits(kept, bitorder="little").view(np.int32)
        return words

    def clear(self, words: Int32, first: int, behind: int) -> None:
        """Take the tokens of the nodes [first, behind) out of a mask (int32 [num_words + 1])."""
        tokens = self.token[first:behind]
        if len(self.aliases):
            tokens = np.concatenate([tokens, self.aliases[np.isin(self.aliases[:, 0], tokens), 1]])
        bits = np.left_shift(np.uint32(1), (tokens & 31).astype(np.uint32)).view(np.int32)
        np.bitwise_and.at(words, tokens >> 5, ~bits)

    @cached_property
    def addresses(self) -> tuple[int, int, int, int]:
        """Of edge, skip, token and aliases in memory."""
        edge, skip, token, aliases = (
            array.ctypes.data for array in (self.edge, self.skip, self.token, self.aliases)
        )
        return edge, skip, token, aliases

    def empty_words(self) -> Int32:
        """A mask that allows nothing, and one more word for `no_token`."""
        return np.zeros(self.num_words + 1, np.int32)


@dataclass(frozen=True)
class RunScan:
    """Where runs of characters of a set end, over all tokens.

    Attributes:
        counts: uint16 [32 * (words + 1)]: characters of a token that lies wholly in the set, a
            last one that is not complete included; `NEVER` for other tokens.
        nodes: int32: nodes whose parent ends a whole number of characters of the set (or is the
            root); those where the set goes on only where they were asked for.
        before: int32: characters before each of `nodes`.
    """

    counts: npt.NDArray[np.uint16]
    nodes: Int32
    before: Int32


NEVER = 65535
