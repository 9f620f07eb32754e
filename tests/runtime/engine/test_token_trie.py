"""The trie of choices: every context, every log-probability, wherever the tokens are cut."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_runtime.cache.radix_tree import Ids
from sgc_runtime.engine.token_trie import TokenTrie

TEXTS = st.lists(
    st.lists(st.integers(1, 3), min_size=1, max_size=6), min_size=1, max_size=8, unique_by=tuple
)


def arrays(texts: Iterable[list[int]]) -> list[Ids]:
    return [np.array(t, np.int32) for t in texts]


def contexts(trie: TokenTrie, cuts: list[int]) -> list[list[int]]:
    """For each token the tokens of its text up to itself, as attention would see them."""
    slots = 100 + np.arange(trie.num_tokens)[::-1].copy()
    place = {int(slot): i for i, slot in enumerate(slots)}
    found = []
    borders = [0, *sorted(c for c in cuts if 0 < c < trie.num_tokens), trie.num_tokens]
    for start, end in pairwise(borders):
        for count, used in trie.sequences(start, end, slots):
            text = [place[int(s)] for s in used]
            found += [text[: len(text) - count + 1 + i] for i in range(count)]
    assert [text[-1] for text in found] == list(range(trie.num_tokens))
    return found


@given(
    prompt=st.lists(st.integers(1, 3), max_size=4),
    behind=TEXTS,
    alone=st.one_of(st.just([]), TEXTS),
    cuts=st.lists(st.integers(0, 40), max_size=4, unique=True),
)
@settings(max_examples=300, deadline=None)
def test_every_token_sees_its_own_text(
    prompt: list[int], behind: list[list[int]], alone: list[list[int]], cuts: list[int]
) -> None:
    trie = TokenTrie(np.array(prompt, np.int32), arrays(behind), arrays(alone))
    paths = contexts(trie, cuts)
    assert trie.positions.tolist() == [len(p) - 1 for p in paths]
    texts = [tuple(trie.tokens[p].tolist()) for p in paths]
    whole = [tuple(prompt + b) for b in behind] + [tuple(a) for a in alone]
    needed = {w[:n] for w in whole for n in range(1, len(w))}
    needed |= {tuple(prompt[:n]) for n in range(1, len(prompt) + 1)}
    assert set(texts) >= needed
    # A prompt whose beginning is also a text without context is computed twice, nothing else.
    assert len(texts) <= len(needed) + (len(prompt) + sum(map(len, alone)) if prompt else 0)
    log = {}  # each log-probability is named by the text up to its token
    rows, ids = trie.edges(trie.first_row, trie.num_tokens)
    for number, (row, token) in enumerate(zip(rows.tolist(), ids.tolist())):
        log[number] = (*texts[row + trie.first_row], token)
    assert len(log) == trie.num_edges
    for i, b in enumerate(behind):
        check_path(trie.logprobs_behind(i, log), prompt, b)  # type: ignore[arg-type]
        kept = trie.computed(i)
        assert kept == sorted(kept)
        text = [*trie.tokens[: trie.num_prompt].tolist(), *trie.tokens[kept].tolist()]
        longer = any(len(o) > len(b) and o[: len(b)] == b for o in behind)
        assert text == [*prompt, *(b if longer or (not prompt and b in starts(alone)) else b[:-1])]
    for i, a in enumerate(alone):
        check_path(trie.logprobs_alone(i, log), [], a)  # type: ignore[arg-type]


def starts(texts: list[list[int]]) -> list[list[int]]:
    return [t[:n] for t in texts for n in range(1, len(t))]


def check_path(found: tuple[object, ...], prompt: list[int], text: list[int]) -> None:
    expected = [(*prompt, *text[: n + 1]) for n in range(len(text))]
    assert list(found) == ([0.0, *expected[1:]] if not prompt else expected)


def test_shared_starts_are_computed_once_and_ends_never() -> None:
    trie = TokenTrie(np.array([7, 8], np.int32), arrays([[1, 2, 3], [1, 2, 4], [1, 5]]))
    assert trie.tokens.tolist() == [7, 8, 1, 2]
    assert trie.num_edges == 5
    slots = np.arange(10, 14)
    assert [(n, s.tolist()) for n, s in trie.sequences(0, 4, slots)] == [(4, [10, 11, 12, 13])]


def test_a_thousand_tokens_deep() -> None:
    trie = TokenTrie(np.array([9], np.int32), arrays([[1] * 1000, [1] * 999 + [2]]))
    assert trie.num_tokens == 1000
    assert trie.computed(0) == list(range(1, 1000))
