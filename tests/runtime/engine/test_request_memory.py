"""Tokens that are taken back leave their request's memory, and the tree if they are in it."""

from __future__ import annotations

import numpy as np
import pytest

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.request_memory import (
    find_prefix,
    give_back,
    give_back_end,
    lock_prefix,
    store,
    take_slots,
)


def running(cache: PrefixCache, ids: list[int]) -> Request:
    request = Request(np.array(ids, np.int32), on_done=lambda *_: None)
    node, matched = find_prefix(cache, request)
    assert take_slots(cache, request, lock_prefix(cache, request, node, matched))
    request.state, request.num_computed = State.RUNNING, request.num_tokens
    return request


@pytest.mark.parametrize("stored", [0, 4, 7, 10])
@pytest.mark.parametrize("kept", [3, 5, 9, 10])
@pytest.mark.parametrize("enabled", [True, False])
def test_what_is_behind_the_tokens_is_given_back(stored: int, kept: int, enabled: bool) -> None:
    cache = PrefixCache(30, enabled)
    request = running(cache, list(range(10)))
    store(cache, request, stored)
    request.num_tokens = kept
    give_back_end(cache, request, kept)
    assert request.node is not None
    assert request.num_slots == request.num_computed == kept
    assert request.node.end <= kept
    cache.check([request.slots[request.node.end : request.num_slots]])
    assert cache.referenced == kept
    assert cache.find(np.arange(10, dtype=np.int32))[1] == (min(stored, kept) if enabled else 0)
    give_back(cache, request, kept)
    cache.check()
    assert cache.referenced == 0


def test_others_keep_what_they_hold() -> None:
    cache = PrefixCache(30)
    first = running(cache, list(range(10)))
    store(cache, first, 9)
    second = running(cache, [*range(9), 20])
    first.num_tokens = 5
    give_back_end(cache, first, 5)
    assert second.node is not None
    assert first.node is not None
    assert (first.node.end, second.node.end) == (5, 9)
    cache.check([first.slots[5:5], second.slots[9:10]])
    for request in (first, second):
        give_back(cache, request, 5)
    assert cache.referenced == 0


@pytest.mark.parametrize("stored", [0, 4, 6, 10])
@pytest.mark.parametrize("tokens", [6, 8])
def test_what_is_computed_again_stays_cached(stored: int, tokens: int) -> None:
    """Slots are given back behind the fifth token; those behind it that are still said stay."""
    cache = PrefixCache(30)
    request = running(cache, list(range(10)))
    store(cache, request, stored)
    request.num_tokens = tokens
    give_back_end(cache, request, 5)
    assert request.node is not None
    assert request.num_slots == request.num_computed == 5
    assert request.node.end == min(stored, 5)
    assert cache.find(np.arange(10, dtype=np.int32))[1] == min(stored, tokens)
    cache.check([request.slots[request.node.end : 5]])
    assert cache.referenced == 5
    give_back(cache, request, 5)
    cache.check()
    assert cache.referenced == 0
