"""The optima of the simulator against all choices that there are."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pytest

from benchmarks.common.optimum import fewest_in_any_order, fewest_in_order
from benchmarks.common.simulated_engine import ServedCall

Text = tuple[int, ...]


def _call(prompt: Sequence[int], made: Sequence[int] = ()) -> ServedCall:
    return ServedCall(np.array(prompt, np.int32), np.array([*prompt, *made], np.int32))


def _random_calls(rng: random.Random) -> list[ServedCall]:
    def text(low: int, high: int) -> list[int]:
        return [rng.randrange(2) for _ in range(rng.randrange(low, high))]

    return [_call(text(1, 5), text(0, 3)) for _ in range(rng.randrange(1, 6))]


def _beginnings(text: Text) -> frozenset[Text]:
    return frozenset(text[:i] for i in range(1, len(text) + 1))


def _fewest_by_trying(calls: Sequence[ServedCall], pool: int) -> int:
    """All ways to evict, of which only those stay that keep every beginning of what is kept."""
    texts = [(tuple(c.prompt.tolist()), tuple(c.made.tolist())) for c in calls]

    @lru_cache(None)
    def best(number: int, cache: frozenset[Text]) -> int:
        if number == len(texts):
            return 0
        prompt, made = texts[number]
        needed = _beginnings(made)
        computed = 1 + len(_beginnings(prompt[:-1]) - cache)
        others = cache - needed
        rests = []
        for count in range(len(others) + 1):
            for kept in itertools.combinations(others, count):
                after = needed | frozenset(kept)
                if len(after) <= pool and all(len(t) == 1 or t[:-1] in after for t in after):
                    rests.append(best(number + 1, after))
        return computed + min(rests)

    return best(0, frozenset())


def test_fewest_in_an_order_is_the_best_of_all_evictions() -> None:
    rng = random.Random(1)
    for _ in range(150):
        calls = _random_calls(rng)
        pool = max(len(c.made) for c in calls) + rng.randrange(3)
        assert fewest_in_order(calls, pool) == _fewest_by_trying(calls, pool)


def test_no_order_needs_less_than_the_best_one_and_a_roomy_pool_needs_no_more() -> None:
    rng = random.Random(2)
    for _ in range(30):
        calls = _random_calls(rng)[:4]
        fewest = fewest_in_any_order(calls)
        roomy = min(fewest_in_order(order, 1_000) for order in itertools.permutations(calls))
        assert roomy >= fewest - len(calls)  # what decode makes first may be prompt elsewhere
        pool = max(len(c.made) for c in calls)
        small = min(fewest_in_order(order, pool) for order in itertools.permutations(calls))
        assert small >= roomy


def test_prompts_alone_reach_the_bound_in_some_order_with_a_pool_of_the_longest() -> None:
    rng = random.Random(3)
    for _ in range(40):
        calls = [_call([rng.randrange(2) for _ in range(rng.randrange(1, 6))]) for _ in range(5)]
        pool = max(len(c.made) for c in calls)
        orders = list(itertools.permutations(calls))
        best = min(map(fewest_in_any_order, orders))
        assert min(fewest_in_order(order, pool) for order in orders) == best


def test_what_decode_made_is_not_computed() -> None:
    first = _call([1, 2, 3], [4, 5])
    second = _call([1, 2, 3, 4, 5, 6])
    assert fewest_in_any_order([first, second]) == 3 + 1
    assert fewest_in_order([first, second], 6) == 3 + 1
    assert fewest_in_order([first, _call([9] * 6), second], 6) == 3 + 6 + 6


def test_a_covered_call_computes_one_token() -> None:
    assert fewest_in_any_order([_call([1, 2]), _call([1, 2])]) == 2 + 1
    assert fewest_in_order([_call([1, 2]), _call([1, 2])], 2) == 2 + 1


def test_a_call_larger_than_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="a pool of 2"):
        fewest_in_order([_call([1, 2, 3])], 2)
