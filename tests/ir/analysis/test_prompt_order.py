"""Depth-first order against all orders, on small tries, with a plain least-recently-used cache."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.analysis.prefix_trie import PrefixTrie, computed_tokens
from sgc_ir.analysis.prompt_order import prompt_order

Prompt = tuple[int, ...]
PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple), min_size=1, max_size=5
)


def computed(order: list[Prompt], capacity: int) -> int:
    """Tokens that are computed when a cache of `capacity` tokens serves the prompts one by one.

    The cache holds prefixes (each a token's place); leaves that are not of the prompt in service
    are evicted, the least recently used first.
    """
    used: dict[Prompt, int] = {}
    total = 0
    for now, prompt in enumerate(order):
        needed = [prompt[:i] for i in range(1, len(prompt) + 1)]
        total += sum(place not in used for place in needed)
        for place in needed:
            used[place] = now
        while len(used) > capacity:
            inner = {place[:-1] for place in used}
            leaves = [p for p in used if p not in inner and p not in needed]
            del used[min(leaves, key=lambda p: (used[p], p))]
    return total


@settings(max_examples=60)
@given(PROMPTS, st.integers(0, 4), st.data())
def test_a_cache_of_the_longest_prompt_is_enough(
    prompts: list[Prompt], more: int, data: st.DataObject
) -> None:
    weights = [data.draw(st.integers(0, 3)) for _ in prompts]
    order = prompt_order(prompts, weights)
    assert sorted(order) == list(range(len(prompts)))
    capacity = max(map(len, prompts)) + more
    best = min(computed(list(found), capacity) for found in permutations(prompts))
    assert computed([prompts[i] for i in order], capacity) == best
    assert best == len({prompt[:i] for prompt in prompts for i in range(1, len(prompt) + 1)})


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
        assert place.fan_out == len(following) + (tuple(whole) in below)


def test_long_chains_go_first_where_depth_first_order_lets_them() -> None:
    prompts = [(1, 2), (1, 3), (4, 5), (4, 6)]
    assert prompt_order(prompts) == [0, 1, 2, 3]
    assert prompt_order(prompts, [0, 1, 0, 9]) == [3, 2, 1, 0]
