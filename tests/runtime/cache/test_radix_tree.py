"""The radix tree against a plain model of it: a dictionary from prefixes to slots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from sgc_runtime.cache.radix_tree import Node, RadixTree, common_prefix

Prefix = tuple[int, ...]
SEQUENCES = st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple)


@dataclass(eq=False)
class Hold:
    """A locked sequence, and its end node."""

    ids: Prefix
    node: Node


def array(ids: Prefix) -> np.ndarray:
    return np.array(ids, np.int32)


class TreeMachine(RuleBasedStateMachine):
    """Random match, insert, fork, release, evict and prune.

    The model keeps for each cached prefix its slot and the time of its last use, and a list of
    locked sequences; a prefix is locked if a locked sequence begins with it.
    """

    holds = Bundle("holds")
    ends = Bundle("ends")  # sequences that once were in the tree, with their end nodes

    def __init__(self) -> None:
        super().__init__()
        self.tree = RadixTree()
        self.slots: dict[Prefix, int] = {}
        self.used: dict[Prefix, int] = {}
        self.locked: list[Prefix] = []
        self.time = 0
        self.next_slot = 0

    # -- the model ----------------------------------------------------------------------------

    def cached(self, ids: Prefix) -> Prefix:
        n = 0
        while n < len(ids) and ids[: n + 1] in self.slots:
            n += 1
        return ids[:n]

    def touch(self, ids: Prefix) -> None:
        self.time += 1
        for n in range(1, len(ids) + 1):
            self.used[ids[:n]] = self.time

    def is_locked(self, prefix: Prefix) -> bool:
        return any(ids[: len(prefix)] == prefix for ids in self.locked)

    def is_leaf(self, prefix: Prefix) -> bool:
        return not any(len(p) == len(prefix) + 1 and p[:-1] == prefix for p in self.slots)

    def drop(self, prefix: Prefix) -> int:
        del self.used[prefix]
        return self.slots.pop(prefix)

    # -- rules --------------------------------------------------------------------------------

    @rule(ids=SEQUENCES, target=ends)
    def insert(self, ids: Prefix) -> Hold:
        return self.put(ids, None)

    def put(self, ids: Prefix, start: Node | None) -> Hold:
        slots = np.arange(self.next_slot, self.next_slot + len(ids))
        self.next_slot += len(ids)
        node, existing = self.tree.insert(array(ids), slots, start)
        assert existing == len(self.cached(ids))
        for n in range(existing, len(ids)):
            self.slots[ids[: n + 1]] = int(slots[n])
        self.touch(ids)
        assert node.end == len(ids)
        return Hold(ids, node)

    @rule(hold=consumes(holds), more=SEQUENCES, target=holds)
    def store_behind_a_lock(self, hold: Hold, more: Prefix) -> Hold:
        """The lock goes over to the end of what is stored."""
        longer = self.put(hold.ids + more[:3], hold.node)
        self.tree.lock(longer.node, above=hold.node)
        self.locked.remove(hold.ids)
        self.locked.append(longer.ids)
        return longer

    @rule(ids=SEQUENCES)
    def find(self, ids: Prefix) -> None:
        node, matched = self.tree.find(array(ids))
        assert matched == len(self.cached(ids))
        assert node.start <= matched <= node.end

    @rule(ids=SEQUENCES, target=holds)
    def match_and_lock(self, ids: Prefix) -> Hold:
        node = self.tree.match(array(ids))
        found = self.cached(ids)
        self.touch(found)
        self.check_path(node, found)
        self.tree.lock(node)
        self.locked.append(found)
        return Hold(found, node)

    @rule(end=ends, more=st.lists(st.integers(0, 2), max_size=3).map(tuple))
    def match_from_soft_hold(self, end: Hold, more: Prefix) -> None:
        ids = end.ids + more
        node = self.tree.match(array(ids), end.node)
        found = self.cached(ids)
        self.touch(found)
        self.check_path(node, found)

    @rule(hold=holds, target=holds)
    def fork(self, hold: Hold) -> Hold:
        if hold.ids not in self.locked:
            return hold
        self.tree.lock(hold.node)
        self.locked.append(hold.ids)
        return Hold(hold.ids, hold.node)

    @rule(hold=consumes(holds))
    def release(self, hold: Hold) -> None:
        self.tree.unlock(hold.node)
        self.locked.remove(hold.ids)

    @rule(n=st.integers(1, 6))
    def evict(self, n: int) -> None:
        expected = []
        for _ in range(n):
            free = [p for p in self.slots if self.is_leaf(p) and not self.is_locked(p)]
            if free:
                expected.append(self.drop(min(free, key=lambda p: self.used[p])))
        assert sorted(self.tree.evict(n).tolist()) == sorted(expected)

    @rule(end=ends, length=st.integers(0, 8))
    def prune(self, end: Hold, length: int) -> None:
        path = self.cached(end.ids)
        may_go = [
            path[:n]
            for n in range(length + 1, len(path) + 1)
            if not self.is_locked(path[:n]) and self.only_on_path(path[:n], path)
        ]
        exact = end.node.alive and end.node.end == len(end.ids)
        freed = set(self.tree.prune(end.node, length).tolist())
        # A hold that lost tokens since does not see those that came back in other nodes.
        assert freed <= {self.slots[p] for p in may_go}
        assert not exact or len(freed) == len(may_go)
        for prefix in [p for p in self.slots if self.slots[p] in freed]:
            self.drop(prefix)

    def only_on_path(self, prefix: Prefix, path: Prefix) -> bool:
        """Whether nothing but `path` goes on from `prefix`."""
        going_on = [p for p in self.slots if p[: len(prefix)] == prefix]
        return all(path[: len(p)] == p for p in going_on)

    # -- laws ---------------------------------------------------------------------------------

    def check_path(self, node: Node, ids: Prefix) -> None:
        assert node.end == len(ids)
        expected = [self.slots[ids[:n]] for n in range(1, len(ids) + 1)]
        assert self.tree.path_slots(node).tolist() == expected

    @invariant()
    def same_content(self) -> None:
        seen = {}
        for node in self.tree.nodes():
            path = [*self.tree.path(node)][::-1]
            ids = tuple(int(t) for n in path for t in n.key)
            for n, slot in zip(range(node.start + 1, node.end + 1), node.slots, strict=True):
                seen[ids[:n]] = int(slot)
        assert seen == self.slots

    @invariant()
    def same_counts(self) -> None:
        assert self.tree.cached == len(self.slots)
        assert self.tree.locked == sum(map(self.is_locked, self.slots))


TestTree = TreeMachine.TestCase
TestTree.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_prune_of_dead_end_takes_what_others_do_not_use() -> None:
    tree = RadixTree()
    long, _ = tree.insert(array((1, 2, 3, 4)), np.arange(4))
    tree.insert(array((1, 2, 9)), np.arange(10, 13))
    assert tree.prune(long, 1).tolist() == [2, 3]
    assert not long.alive
    assert tree.find(array((1, 2, 3)))[1] == 2


def test_common_prefix() -> None:
    assert common_prefix(array(()), array((1,))) == 0
    assert common_prefix(array((2, 1)), array((1,))) == 0
    assert common_prefix(array((1, 2, 3)), array((1, 2, 4, 5))) == 2
    assert common_prefix(array((1, 2)), array((1, 2, 4))) == 2
