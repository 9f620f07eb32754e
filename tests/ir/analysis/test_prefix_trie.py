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
    trie.settle()
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


@given(PROMPTS, st.integers(0, 5))
def test_prompts_that_go_on_from_others_stand_where_whole_ones_do(
    prompts: list[Prompt], cut: int
) -> None:
    whole, parted = PrefixTrie(), PrefixTrie()
    ends = [whole.add(prompt) for prompt in prompts]
    for prompt in prompts:
        begin = parted.add(prompt[:cut])
        begin.ended -= 1  # only a place to go on from
        parted.add(prompt[cut:], begin)
    whole.settle()
    parted.settle()
    assert whole.common() == _common(prompts)
    assert [end.low for end in ends] == [len(prompt) for prompt in prompts]
    shared = [
        sum(_readers(prompt[:i], prompts) > 1 for i in range(1, len(prompt) + 1))
        for prompt in prompts
    ]
    assert [end.shared for end in ends] == shared
    assert sorted(p.low for p in whole.places() if p.ended) == sorted(
        p.low for p in parted.places() if p.ended
    )


def _common(prompts: list[Prompt]) -> int:
    return next(
        i for i in range(10) if len({p[: i + 1] for p in prompts}) > 1 or i >= len(prompts[0])
    )


def _readers(begin: Prompt, prompts: list[Prompt]) -> int:
    return sum(prompt[: len(begin)] == begin for prompt in prompts)
