"""Slots are never lost and never in two places, whatever sequences do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sgc_runtime.cache.kv_pool import KVPool, SlotAllocator, bytes_per_token
from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import Node

SIZE = 24


@dataclass(eq=False)
class Sequence:
    """A sequence in flight: `tokens`, the slots of all of them, and its locked node."""

    tokens: list[int]
    slots: np.ndarray
    node: Node
    content: list[tuple[int, ...]] = field(default_factory=list)


class CacheMachine(RuleBasedStateMachine):
    """Sequences begin, grow, share, end and give up; the pool's content is simulated, so that a
    slot that comes back with a wrong token in it is seen."""

    sequences = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(SIZE)
        self.pool: dict[int, tuple[int, ...]] = {}  # slot -> the prefix whose KV was written
        self.live: list[Sequence] = []

    def write(self, tokens: list[int], slots: np.ndarray, start: int) -> None:
        for n in range(start, len(tokens)):
            self.pool[int(slots[n])] = tuple(tokens[: n + 1])

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=8), target=sequences)
    def begin(self, tokens: list[int]) -> Sequence | None:
        ids = np.array(tokens, np.int32)
        node = self.cache.match(ids)
        self.cache.lock(node)
        missing = len(ids) - node.end
        fits = missing <= self.cache.available
        own = self.cache.alloc(missing)
        assert (own is not None) == fits
        if own is None:
            self.cache.unlock(node)
            return None
        slots = np.concatenate([self.cache.path_slots(node), own])
        self.write(tokens, slots, node.end)
        sequence = Sequence(tokens, slots, node)
        self.live.append(sequence)
        return sequence

    @rule(sequence=sequences)
    def share(self, sequence: Sequence | None) -> None:
        if sequence not in self.live:
            return
        assert sequence is not None
        ids = np.array(sequence.tokens, np.int32)
        leaf = self.cache.store(ids, sequence.slots, sequence.node)
        self.cache.lock(leaf)
        self.cache.unlock(sequence.node)
        sequence.node = leaf
        assert leaf.end == len(ids)

    @rule(sequence=sequences, token=st.integers(0, 1))
    def grow(self, sequence: Sequence | None, token: int) -> None:
        if sequence not in self.live:
            return
        assert sequence is not None
        slot = self.cache.alloc(1)
        if slot is None:
            return
        sequence.tokens = [*sequence.tokens, token]
        sequence.slots = np.concatenate([sequence.slots, slot])
        self.write(sequence.tokens, sequence.slots, len(sequence.tokens) - 1)

    @rule(sequence=consumes(sequences), keep=st.booleans())
    def end(self, sequence: Sequence | None, keep: bool) -> None:
        if sequence not in self.live:
            return
        assert sequence is not None
        if keep:
            self.share(sequence)
        self.cache.release(sequence.slots[sequence.node.end :])
        self.cache.unlock(sequence.node)
        self.live.remove(sequence)

    @invariant()
    def laws(self) -> None:
        self.cache.check([s.slots[s.node.end :] for s in self.live] or [np.empty(0, np.int64)])

    @invariant()
    def slots_hold_what_they_should(self) -> None:
        for s in self.live:
            held = [self.pool[int(slot)] for slot in s.slots]
            assert held == [tuple(s.tokens[: n + 1]) for n in range(len(s.tokens))]
        for node in self.cache.tree.nodes():
            path = [*self.cache.tree.path(node)][::-1]
            ids = tuple(int(t) for n in path for t in n.key)
            for n, slot in zip(range(node.start, node.end), node.slots, strict=True):
                assert self.pool[int(slot)] == ids[: n + 1]


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_without_cache_nothing_is_kept() -> None:
    cache = PrefixCache(8, enabled=False)
    ids = np.arange(4, dtype=np.int32)
    slots = cache.alloc(4)
    assert slots is not None
    root = cache.match(ids)
    assert cache.store(ids, slots, root) is root
    cache.release(slots)
    assert cache.find(ids)[1] == 0
    assert cache.free == 8


def test_allocator_hands_out_low_slots_first_and_never_twice() -> None:
    slots = SlotAllocator(5)
    first, second = slots.alloc(2), slots.alloc(2)
    assert first is not None
    assert second is not None
    assert first.tolist() + second.tolist() == [0, 1, 2, 3]
    assert slots.alloc(2) is None
    slots.release(first)
    assert sorted(slots.free_slots().tolist()) == [0, 1, 4]
    with pytest.raises(AssertionError):
        slots.release(np.arange(9))


def test_pool_shapes_and_bytes() -> None:
    pool = KVPool(3, 7, 2, 4, torch.bfloat16, torch.device("cpu"))
    assert len(pool.k) == len(pool.v) == 3
    assert pool.k[0].shape == (7, 2, 4)
    held = sum(t.numel() * t.element_size() for t in (*pool.k, *pool.v))
    assert held == 7 * bytes_per_token(3, 2, 4, torch.bfloat16)


def test_spare_slots_lie_behind_the_others() -> None:
    pool = KVPool(1, 7, 2, 4, torch.float32, torch.device("cpu"), spare=1)
    assert pool.num_slots == 7
    assert pool.k[0].shape == pool.v[0].shape == (8, 2, 4)
