"""Masks while generated text still spells a prefix that stands before the constraint's own text."""

from __future__ import annotations

import numpy as np

from sgc_kernels.masks.trie_table import Int32, TrieTable
from sgc_runtime.constraints.token_masks import TokenMasks


def prefix_mask(masks: TokenMasks, rest: bytes, state: int) -> Int32:
    """The tokens that spell `rest` or a part of it, or all of it and then go on as `state` does.

    Returns:
        int32 [num_words], as `TokenMasks.mask` does.
    """
    table = masks.vocabulary.trie.table
    words = table.empty_words()
    node = table.num_nodes  # the root
    for byte in rest:
        children = _children(table, node)
        at = np.searchsorted(table.edge[children] & 0xFF, byte)
        if at == len(children) or table.edge[children[at]] & 0xFF != byte:
            return words[:-1]
        node = int(children[at])
        _allow(table, words, int(table.token[node]))
    children = _children(table, node)
    spans = np.stack(
        [children, table.skip[children], np.full(len(children), state, np.int32)], 1
    ).astype(np.int32)
    with masks.lock:
        masks.vocabulary.walks.walk(table, masks.automaton, spans, words)
    return words[:-1]


def _children(table: TrieTable, node: int) -> Int32:
    first, child = table.children
    found: Int32 = child[first[node] : first[node + 1]]
    return found


def _allow(table: TrieTable, words: Int32, token: int) -> None:
    if token == table.no_token:
        return
    alike = table.aliases[table.aliases[:, 0] == token, 1]
    bits = words.view(np.uint32)
    for bit in (token, *alike.tolist()):
        bits[bit >> 5] |= np.uint32(1 << (bit & 31))
