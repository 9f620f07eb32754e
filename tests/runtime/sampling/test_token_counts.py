"""Growing counts of token ids against a counter."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sgc_runtime.sampling.token_counts import TokenCounts

IDS = st.lists(st.integers(0, 50), max_size=120)


@given(IDS, IDS)
def test_equal_to_a_counter(first: list[int], added: list[int]) -> None:
    counts = TokenCounts(first)
    for token in added:
        counts.add(token)
    found = dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True))
    assert found == Counter(first + added)
    assert len(counts.ids) == len(set(first + added))


@given(IDS, st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=80))
def test_counts_may_fall_again(first: list[int], changes: list[tuple[int, bool]]) -> None:
    counts, expected = TokenCounts(first), Counter(first)
    for token, more in changes:
        times = 1 if more or not expected[token] else -1
        counts.add(token, times)
        expected[token] += times
    found = dict(zip(counts.ids.tolist(), counts.counts.tolist(), strict=True))
    assert found == +expected
