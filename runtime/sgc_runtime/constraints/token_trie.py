"""A tokenizer's tokens by their bytes, as a trie."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sgc_kernels.masks.trie_table import Int32, TrieTable

Ints = npt.NDArray[np.int64]


class TokenSource(Protocol):
    """What of a tokenizer the trie is made from."""

    @property
    def vocab_size(self) -> int: ...

    def token_bytes(self, token_id: int) -> bytes: ...


class TokenTrie:
    """The tokens that stand for text; control tokens and ids without bytes are left out.

    Args:
        tokens: bytes of each id, none for those that no text may hold.

    Attributes:
        tokens: the same.
        table: the trie, for the walks.
        digest: equal for equal `tokens`.
    """

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.table = trie_table(tokens)
        self.digest = _digest(tokens)

    @classmethod
    def of(cls, tokenizer: TokenSource, num_ids: int | None = None) -> TokenTrie:
        """The trie of the first `num_ids` tokens of a tokenizer (default: all)."""
        count = tokenizer.vocab_size if num_ids is None else num_ids
        return cls([tokenizer.token_bytes(token) for token in range(count)])

    def node(self, beginning: bytes) -> int:
        """The node of the trie at which tokens begin so; -1 where none does."""
        texts, ends = self._sorted
        at = bisect_left(texts, beginning)
        if at == len(texts) or not texts[at].startswith(beginning):
            return -1
        return int(ends[at]) - len(texts[at]) + len(beginning)

    @cached_property
    def _sorted(self) -> tuple[list[bytes], Int32]:
        """The bytes of tokens in order, each once, and the node at which each ends."""
        nodes = np.flatnonzero(self.table.token != self.table.no_token).astype(np.int32)
        return [self.tokens[token] for token in self.table.token[nodes].tolist()], nodes

    def holding(self, part: bytes) -> list[int]:
        """The tokens that hold `part`, in order."""
        data, ends = self._text
        found, at = [], data.find(part)
        while at >= 0:
            token = int(np.searchsorted(ends, at, side="right"))
            inside = at + len(part) <= ends[token]
            if inside:
                found.append(token)
            at = data.find(part, int(ends[token]) if inside else at + 1)
        return found

    @cached_property
    def _text(self) -> tuple[bytes, Ints]:
        """All tokens behind one another, and where each ends."""
        lengths = np.fromiter(map(len, self.tokens), np.int64, len(self.tokens))
        return b"".join(self.tokens), np.cumsum(lengths)

    @property
    def num_bytes(self) -> int:
        """Memory of the arrays, once they are all made."""
        table = self.table
        made = (table.edge, table.skip, table.token, table.aliases, *table.children)
        data, ends = self._text
        texts, nodes = self._sorted
        return sum(a.nbytes for a in made) + len(data) + ends.nbytes + nodes.nbytes + 8 * len(texts)

    def prepare(self) -> None:
        """Make now what few masks need, for which the first of them would wait."""
        _ = self.table.children, self._text, self._sorted


def _digest(tokens: list[bytes]) -> bytes:
    lengths = np.fromiter(map(len, tokens), np.int64, len(tokens))
    found = hashlib.blake2b(lengths.tobytes(), digest_size=16)
    found.update(b"".join(tokens))
    return found.digest()


def trie_table(tokens: list[bytes]) -> TrieTable:
    """The trie of all tokens that have bytes; token i is bit i of a mask.

    Sorted, each token shares a prefix with the one before it, and what is behind the prefix are
    its new nodes, in depth-first order.
    """
    order = sorted((token for token in range(len(tokens)) if tokens[token]), key=tokens.__getitem__)
    words = -(-len(tokens) // 32)
    if not order:
        none = np.zeros(0, np.int32)
        return TrieTable(none, none, none, np.zeros((0, 2), np.int32), words)
    texts = [tokens[token] for token in order]
    ids = np.array(order, np.int32)
    data = np.frombuffer(b"".join(texts), np.uint8)
    length = np.fromiter(map(len, texts), np.int64, len(texts))
    start = np.cumsum(length) - length
    shared = _shared_with_previous(data, start, length)
    new = length - shared
    first = np.cumsum(new) - new  # a token's first new node
    depth = np.arange(new.sum()) - np.repeat(first - shared, new)
    byte = data[np.repeat(start, new) + depth]
    token = np.full(len(depth), 32 * words, np.int32)
    again = new == 0  # the bytes of the token before it
    token[(first + new - 1)[~again]] = ids[~again]
    aliases = np.stack([_first_alike(ids, again)[again], ids[again]], 1).astype(np.int32)
    edge = (depth * 256 + byte).astype(np.int32)
    return TrieTable(edge, _skips(depth, first, shared, new), token, aliases, words)


def _shared_with_previous(data: npt.NDArray[np.uint8], start: Ints, length: Ints) -> Ints:
    """For each token, how many of its first bytes the one before it begins with as well."""
    shared = np.zeros(len(start), np.int64)
    least = np.minimum(length[1:], length[:-1])
    open_ = np.arange(1, len(start))
    for column in range(int(least.max(initial=0))):
        open_ = open_[least[open_ - 1] > column]
        open_ = open_[data[start[open_] + column] == data[start[open_ - 1] + column]]
        shared[open_] = column + 1
    return shared


def _first_alike(ids: Int32, again: npt.NDArray[np.bool_]) -> Int32:
    """For each token the first one with the same bytes."""
    firsts = np.where(again, 0, np.arange(len(ids)))
    found: Int32 = ids[np.maximum.accumulate(firsts)]
    return found


def _skips(depth: Ints, first: Ints, shared: Ints, new: Ints) -> Int32:
    """For each node the next one that is no deeper: there a token begins to differ."""
    skip = np.full(len(depth), len(depth), np.int32)
    level_order = np.argsort(depth, kind="stable")
    ends = np.cumsum(np.bincount(depth))
    begins = first[new > 0]
    shared = shared[new > 0]
    for level, (low, high) in enumerate(zip(np.r_[0, ends[:-1]], ends, strict=True)):
        nodes = level_order[low:high]
        borders = np.append(begins[shared <= level], len(depth))
        skip[nodes] = borders[np.searchsorted(borders, nodes, side="right")]
    return skip
