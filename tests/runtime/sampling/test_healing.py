"""Healing over random vocabularies against a scan of all of it."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sgc_runtime.sampling.healing import Healing, TokenPrefixes, num_healed

TEXTS = st.lists(st.binary(max_size=3).map(lambda b: bytes(x % 3 + 253 for x in b)), max_size=30)


@given(TEXTS, st.binary(min_size=1, max_size=3).map(lambda b: bytes(x % 3 + 253 for x in b)))
def test_prefixes_equal_a_scan(texts: list[bytes], prefix: bytes) -> None:
    prefixes = TokenPrefixes(texts.__getitem__, len(texts))
    expected = {i for i, text in enumerate(texts) if text.startswith(prefix)}
    assert set(prefixes.starting_with(prefix).tolist()) == expected
    assert prefixes.has_longer(prefix) == any(len(texts[i]) > len(prefix) for i in expected)


@given(TEXTS, st.lists(st.integers(0, 29), min_size=2, max_size=6), st.integers(0, 12))
def test_what_is_taken_back_ends_at_the_literal_text(
    texts: list[bytes], picks: list[int], literal_bytes: int
) -> None:
    texts = [*texts, b"a"]
    ids = [i % len(texts) for i in picks]
    count = num_healed(ids, literal_bytes, TokenPrefixes(texts.__getitem__, len(texts)))
    tail = [texts[i] for i in ids[len(ids) - count :]]
    assert count < len(ids)
    assert all(tail)
    assert len(b"".join(tail)) <= literal_bytes
    if count:
        data = b"".join(tail)
        assert any(text.startswith(data) and len(text) > len(data) for text in texts)


@given(st.lists(st.text("ab", max_size=4).map(str.encode), min_size=1, max_size=30), st.data())
def test_any_legal_walk_spells_the_text(texts: list[bytes], data: st.DataObject) -> None:
    known = [i for i, text in enumerate(texts) if text]
    if not known:
        return
    ids = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4))
    seed = data.draw(st.integers(0, 2**32))
    left = b"".join(texts[i] for i in ids)
    healing = Healing(TokenPrefixes(texts.__getitem__, len(texts)), ids)
    rng, spelled, rest, own = random.Random(seed), b"", b"", list(ids)
    while healing.active:
        missing = left[len(spelled) :]
        legal = {i for i in known if texts[i].startswith(missing)} | {own[0]}
        assert set(healing.allowed().tolist()) == legal
        token = rng.choice(sorted(legal))
        rest = healing.take(token)
        spelled, own = spelled + texts[token], own[1:]
    assert spelled == left + rest
