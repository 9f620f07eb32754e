"""What is evicted first: what nobody reads again, then what is unknown, then what is read late."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sgc_runtime.cache.eviction import EvictionQueue
from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import FAR, Claim, Node
from sgc_runtime.cache.readers import Readers


def put(cache: PrefixCache, ids: list[int], user: int = 1) -> Node:
    """A sequence that an instance has computed and holds no more."""
    sequence = np.array(ids, np.int32)
    node = cache.match(sequence)
    cache.lock(node, user=user)
    fresh = cache.alloc(len(ids) - node.end)
    assert fresh is not None
    leaf = cache.store(sequence, np.concatenate([cache.path_slots(node), fresh]), node)
    cache.lock(leaf, above=node, user=user)
    cache.unlock(leaf)
    return leaf


def cached(cache: PrefixCache, ids: list[int]) -> int:
    return cache.find(np.array(ids, np.int32))[1]


def evict(cache: PrefixCache, num_tokens: int) -> None:
    slots = cache.alloc(cache.free + num_tokens)
    assert slots is not None
    cache.release(slots)
    cache.check()


A, B, C, D = ([n, *range(10 * n, 10 * n + 4)] for n in (1, 2, 3, 4))


def test_released_goes_before_unknown_and_held_goes_last() -> None:
    cache = PrefixCache(20)
    nodes = [put(cache, ids) for ids in (A, B, C, D)]
    readers = cache.readers
    readers.claim(nodes[0], Claim(1, 7))  # the oldest
    readers.release(nodes[3])  # the youngest
    assert cache.held == 5
    order = []
    for _ in range(4):
        before = [ids for ids in (A, B, C, D) if cached(cache, ids)]
        evict(cache, 5)
        order += [ids for ids in before if not cached(cache, ids)]
    assert order == [D, B, C, A]
    assert cache.held == 0


def test_the_latest_next_use_goes_first() -> None:
    cache = PrefixCache(20)
    for due, ids in ((9, A), (FAR, B), (3, C), (30, D)):
        cache.readers.claim(put(cache, ids), Claim(1, due))
    gone = []
    for _ in range(4):
        evict(cache, 5)
        gone += [ids for ids in (A, B, C, D) if not cached(cache, ids) and ids not in gone]
    assert gone == [B, D, A, C]


def test_a_claim_locks_nothing() -> None:
    cache = PrefixCache(20)
    for ids in (A, B, C, D):
        cache.readers.claim(put(cache, ids), Claim(1, 1))
    assert (cache.held, cache.available) == (20, 20)
    assert cache.alloc(20) is not None
    assert cache.held == 0


def test_a_claim_that_is_dropped_holds_no_more() -> None:
    cache = PrefixCache(20)
    claim = Claim(1, 5)
    first = put(cache, A)
    cache.readers.claim(first, claim)
    put(cache, B)
    longer = put(cache, [*A, 8, 9])
    cache.tree.cut(longer, 6)  # a part of the claimed path is two nodes now
    cache.readers.claim(longer, claim)
    cache.check()
    assert cache.held == 6
    cache.readers.drop(claim)
    assert cache.held == 0
    assert not claim.nodes
    evict(cache, 5)
    assert not cached(cache, B), "it is as old as it was"


def test_whoever_waits_holds_the_path() -> None:
    cache = PrefixCache(20)
    leaf = put(cache, A)
    put(cache, B)
    cache.readers.wait_at(leaf)
    cache.readers.wait_at(leaf)
    evict(cache, 5)
    assert cached(cache, A) == 5
    assert not cached(cache, B)
    cache.readers.wait_no_more(leaf)
    assert cache.held == 5
    evict(cache, 3)  # nothing else is left
    assert cached(cache, A) == 2
    evict(cache, 2)
    cache.readers.wait_no_more(leaf)  # the node is gone
    cache.check()


def test_what_another_instance_uses_is_not_released_any_more() -> None:
    cache = PrefixCache(20)
    leaf = put(cache, A, user=1)
    cache.readers.release(leaf)
    put(cache, A, user=1)
    assert leaf.released
    put(cache, A, user=2)
    assert not leaf.released


@pytest.mark.parametrize("seed", range(20))
def test_counters_under_random_marks(seed: int) -> None:
    rng = random.Random(seed)
    cache = PrefixCache(60)
    nodes: list[Node] = []
    waits: list[Node] = []
    claims = [Claim(i, rng.randrange(50)) for i in range(6)]
    for _ in range(300):
        kind = rng.randrange(7)
        alive = [n for n in nodes if n.alive]
        if kind <= 1 or not alive:
            ids = [rng.randrange(3) for _ in range(rng.randrange(1, 12))]
            nodes.append(put(cache, ids, rng.randrange(3)))
        elif kind == 2:
            cache.readers.claim(rng.choice(alive), rng.choice([None, *claims]))
        elif kind == 3:
            waits.append(rng.choice(alive))
            cache.readers.wait_at(waits[-1])
        elif kind == 4 and waits:
            cache.readers.wait_no_more(waits.pop(rng.randrange(len(waits))))
        elif kind == 5:
            cache.readers.release(rng.choice(alive))
        else:
            cache.readers.drop(rng.choice(claims))
        cache.check()
        assert all(n.alive and n.claim is c for c in claims for n in c.nodes)
    for node in waits:
        cache.readers.wait_no_more(node)
    for claim in claims:
        cache.readers.drop(claim)
    assert cache.held == 0


class Leaf:
    def __init__(self, rank: int) -> None:
        self.rank, self.queued = rank, None


def test_the_queue_forgets_what_is_out_of_date() -> None:
    queue: EvictionQueue[Leaf] = EvictionQueue()
    leaf = Leaf(10**9)
    for _ in range(10_000):  # a leaf that falls again and again
        leaf.rank -= 1
        queue.push(leaf)
    assert len(queue) < 2_100
    assert queue.pop() == (leaf, leaf.rank)
    assert queue.pop() == (None, 0)


def test_tokens_computed_ahead_count_once() -> None:
    cache = PrefixCache(20)
    ids = np.arange(8, dtype=np.int32)
    slots = cache.alloc(8)
    assert slots is not None
    leaf = cache.store(ids, slots, cache.tree.root, ahead=True)
    half = cache.match(ids[:5])
    readers = Readers(cache.tree)
    assert readers.read(half) == 5
    assert readers.read(leaf) == 3
    assert readers.read(leaf) == 0
