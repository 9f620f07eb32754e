"""The trie of waiting prompts against plain counting."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_runtime.engine.waiting_trie import Place, WaitingTrie

PROMPTS = st.lists(st.integers(0, 2), max_size=7).map(tuple)


def waiting(prompt: tuple[int, ...], arrival: int) -> SimpleNamespace:
    tokens = np.array([*prompt, 9], np.int32)
    return SimpleNamespace(tokens=tokens, num_matchable=len(prompt), arrival=arrival)


def check(trie: WaitingTrie, present: dict[int, tuple[int, ...]]) -> None:
    places, stack = [], [trie.root]
    while stack:
        place = stack.pop()
        places.append(place)
        stack += place.children.values()
    for place in places:
        path = tuple(place.path.tolist())
        below = [a for a, prompt in present.items() if prompt[: place.end] == path]
        ending = [a for a in below if present[a] == path]
        assert place.count == len(below)
        assert place.tokens == sum(10 + len(present[a]) for a in below)
        assert sorted(place.requests) == sorted(ending)
        check_children(place)
        if place is not trie.root:
            assert place.requests or len(place.children) > 1, "a place without a use"
    assert len(trie) == len(present)


def check_children(place: Place) -> None:
    assert list(place.children) == [c.first for c in place.children.values()]
    assert all(c.parent is place and c.start == place.end for c in place.children.values())
    listed = list(place.by_weight())
    assert sorted(map(id, listed)) == sorted(map(id, place.children.values()))
    sizes = [c.count.bit_length() for c in listed]
    assert sizes == sorted(sizes, reverse=True)
    assert place.active is None or place.active in listed


@given(
    events=st.lists(st.tuples(PROMPTS, st.sampled_from("aarst"), st.integers(0, 99)), max_size=40)
)
@settings(max_examples=150, deadline=None)
def test_counts_are_those_of_the_requests_below(
    events: list[tuple[tuple[int, ...], str, int]],
) -> None:
    trie = WaitingTrie(lambda r: 10 + r.num_matchable)
    requests: dict[int, SimpleNamespace] = {}
    present: dict[int, tuple[int, ...]] = {}
    for arrival, (prompt, what, pick) in enumerate(events):
        if what == "a" or not present:
            requests[arrival] = waiting(prompt, arrival)
            present[arrival] = prompt
            trie.add(requests[arrival])  # type: ignore[arg-type]
        else:
            victim = sorted(present)[pick % len(present)]
            if what == "s":
                trie.activate(requests[victim])  # type: ignore[arg-type]
            trie.remove(requests[victim])  # type: ignore[arg-type]
            del present[victim]
        check(trie, present)
