"""The trie of prompts against plain sets of their beginnings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.analysis.prefix_trie import PrefixTrie, computed_tokens

Prompt = tuple[int, ...]
PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=5
)


@given(PROMPTS)
def test_the_least_to_compute_is_each_place_once(prompts: list[Prompt]) -> None:
    trie = PrefixTrie()
    for prompt in prompts:
        trie.add(prompt)
    places = {prompt[:i] for prompt in prompts for i in range(1, len(prompt) + 1)}
    repeats = len(prompts) - len(set(prompts))  # their last tokens are computed again
    assert computed_tokens(trie, lambda place: len(place.items)) == len(places) + repeats


@given(PROMPTS)
def test_places_know_their_readers_and_ways_on(prompts: list[Prompt]) -> None:
    trie = PrefixTrie()
    for prompt in prompts:
        trie.add(prompt)
    for place in trie.places():
        whole: list[int] = []
        here = place
        while here.parent is not None:
            whole = [*here.items, *whole]  # type: ignore[list-item]
            here = here.parent
        below = [p for p in prompts if p[: len(whole)] == tuple(whole)]
        assert place.readers == len(below)
        assert place.ended == below.count(tuple(whole))
        following = {p[len(whole)] for p in below if len(p) > len(whole)}
        assert len(place.children) == len(following)
