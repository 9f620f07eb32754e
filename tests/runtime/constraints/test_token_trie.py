"""The trie against a plain set of prefixes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_runtime.constraints.token_trie import TokenTrie, trie_table

TOKENS = st.lists(
    st.one_of(st.binary(max_size=4), st.lists(st.sampled_from(b"ab"), max_size=6).map(bytes)),
    max_size=70,
)


@given(TOKENS)
@settings(max_examples=200, deadline=None)
def test_nodes_are_the_prefixes_in_order(tokens: list[bytes]) -> None:
    table = trie_table(tokens)
    prefixes = sorted({token[: i + 1] for token in tokens for i in range(len(token))})
    assert table.num_nodes == len(prefixes)
    assert table.num_words == -(-len(tokens) // 32)
    assert table.num_levels == max(map(len, tokens), default=0)
    for node, prefix in enumerate(prefixes):
        assert table.edge[node] == (len(prefix) - 1) * 256 + prefix[-1]
        behind = [
            i for i, other in enumerate(prefixes) if i > node and other[: len(prefix)] != prefix
        ]
        assert table.skip[node] == min(behind, default=len(prefixes))
        ids = [i for i, token in enumerate(tokens) if token == prefix]
        assert table.token[node] == (ids[0] if ids else table.no_token)


@given(TOKENS)
@settings(max_examples=100, deadline=None)
def test_aliases_are_the_other_tokens_of_the_same_bytes(tokens: list[bytes]) -> None:
    expected = {
        (tokens.index(token), i)
        for i, token in enumerate(tokens)
        if token and tokens.index(token) != i
    }
    assert {tuple(pair) for pair in trie_table(tokens).aliases.tolist()} == expected


@given(TOKENS)
@settings(max_examples=50, deadline=None)
def test_children(tokens: list[bytes]) -> None:
    table = trie_table(tokens)
    prefixes = sorted({token[: i + 1] for token in tokens for i in range(len(token))})
    first, child = table.children
    for node, prefix in [*enumerate(prefixes), (len(prefixes), b"")]:
        expected = [i for i, other in enumerate(prefixes) if other[:-1] == prefix]
        assert child[first[node] : first[node + 1]].tolist() == expected


def test_digests_tell_vocabularies_apart() -> None:
    lists = [[b"ab", b"c"], [b"a", b"bc"], [b"c", b"ab"], [b"ab", b"c", b""]]
    digests = {TokenTrie(tokens).digest for tokens in lists}
    assert len(digests) == 4
    assert TokenTrie([b"ab", b"c"]).digest == TokenTrie([b"ab", b"c"]).digest


def test_ids_without_bytes_are_no_tokens() -> None:
    trie = TokenTrie([b"", b"a", b""])
    assert len(trie.tokens) == 3
    assert trie.table.token.tolist() == [1]
    empty = TokenTrie([])
    assert empty.table.num_nodes == 0
    assert np.array_equal(empty.table.empty_words(), [0])
