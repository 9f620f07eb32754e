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
