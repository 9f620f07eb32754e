"""Radix tree and slot allocator as one memory: what is not in use is a cache.

Every slot is at any time in exactly one of four places:

| place     | counted by        | leaves it by                             |
|-----------|-------------------|------------------------------------------|
| free      | `free`            | `alloc`                                  |
| owned     | `owned`           | `store` (into the tree), `release`       |
| locked    | `tree.locked`     | `unlock`                                 |
| evictable | `evictable`       | `lock`, eviction by `alloc`, `prune`     |

so free + cached (evictable) + referenced (locked + owned) = pool size. `check` proves it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sgc_runtime.cache.kv_pool import SlotAllocator
from sgc_runtime.cache.radix_tree import MANY, Ids, Node, RadixTree, Slots
from sgc_runtime.cache.readers import Readers


class PrefixCache:
    """Slots for running sequences, prefixes for later ones.

    Two comparisons: with `enabled` False nothing is kept, so nothing is ever found; with `tree`
    False a sequence is found only by those that begin with the whole of it, as in a table of
    sequences (`find_whole`).
    """

    def __init__(self, num_slots: int, enabled: bool = True, tree: bool = True) -> None:
        self.tree = RadixTree()
        self.readers = Readers(self.tree)
        self.enabled, self.has_tree = enabled, tree
        self._slots = SlotAllocator(num_slots)

    @property
    def num_slots(self) -> int:
        return self._slots.num_slots

    @property
    def free(self) -> int:
        return self._slots.free

    @property
    def evictable(self) -> int:
        return self.tree.cached - self.tree.locked

    @property
    def held(self) -> int:
        """Evictable tokens that calls which wait, or are claimed to come, read again."""
        return self.tree.held

    @property
    def shared_held(self) -> int:
        """Of `held` those that have served several instances; nobody knows when they do again."""
        return self.tree.shared_held

    @property
    def owned(self) -> int:
        return self.num_slots - self.free - self.tree.cached

    @property
    def referenced(self) -> int:
        return self.tree.locked + self.owned

    @property
    def available(self) -> int:
        """Tokens that `alloc` can give."""
        return self.free + self.evictable

    def find(self, ids: Ids, start: Node | None = None) -> tuple[Node, int]:
        """Where `ids` leaves the tree, and after how many tokens; see `RadixTree.find`."""
        return self.tree.find(ids, start)

    def find_whole(self, ids: Ids, length: int, start: Node | None = None) -> tuple[Node, int]:
        """`find` of the first `length` of `ids`, where only what was stored as a whole counts.

        `ids` itself counts too: its last token is computed anew for its logits.
        """
        node, matched = self.find(ids, start)
        if node.whole and matched == len(ids) == node.end:
            return self.find(ids[:length], start)
        node = self.tree.climb(node, min(matched, length))
        while not node.whole and node.parent is not None:
            node = node.parent
        return node, node.end

    def match(self, ids: Ids, start: Node | None = None) -> Node:
        """End node of the longest cached prefix of `ids`; see `RadixTree.match`."""
        return self.tree.match(ids, start)

    def reach(self, node: Node, matched: int) -> Node:
        """`match` where `find` has just given these; see `RadixTree.reach`."""
        return self.tree.reach(node, matched)

    def climb(self, node: Node, length: int) -> Node:
        """The living part of a soft hold; see `RadixTree.climb`."""
        return self.tree.climb(node, length)

    def path_slots(self, node: Node) -> Slots:
        return self.tree.path_slots(node)

    def lock(self, node: Node, above: Node | None = None, user: int | None = MANY) -> None:
        self.tree.lock(node, above, user)

    def unlock(self, node: Node) -> None:
        self.tree.unlock(node)

    def alloc(self, n: int) -> Slots | None:
        """`n` slots for the caller to own, evicting where needed; None when `available` < n."""
        if n > self.available:
            return None
        if n > self.free:
            self._slots.release(self.tree.evict(n - self.free))
        return self._slots.alloc(n)

    def release(self, slots: Slots) -> None:
        """Give owned slots back."""
        self._slots.release(slots)

    def store(self, ids: Ids, slots: Slots, node: Node, ahead: bool = False) -> Node:
        """Put a computed sequence into the tree; returns its end node, or `node` when nothing is
        kept (the slots then stay with the caller).

        `slots` holds the slots of all of `ids`; those before `node.end` are the tree's own (the
        caller has locked `node`), the rest is owned by the caller and goes over to the tree.
        Where the tree already knows a token, the caller's slot is released and `slots` is
        rewritten in place to the tree's. `ahead`: see `Node`.
        """
        held = node.end
        if not self.enabled:
            return node
        leaf, existing = self.tree.insert(ids, slots, node, ahead)
        if existing > held:
            self.release(slots[held:existing])
            slots[:existing] = self.tree.path_slots(leaf)[:existing]
        return leaf

    def prune(self, node: Node, length: int) -> None:
        """Let the tokens behind `length` of the sequence that ended at `node` leave the tree."""
        self._slots.release(self.tree.prune(node, length))

    def check(self, owned: Iterable[Slots] = ()) -> None:
        """Assert the laws of this memory; `owned` lists the slots that callers hold, if known."""
        places = [self._slots.free_slots(), *(n.slots for n in self.tree.nodes()), *owned]
        used = np.concatenate(places)
        assert len(np.unique(used)) == len(used), "a slot is in two places"
        cached = sum(len(n.key) for n in self.tree.nodes())
        locked = sum(len(n.key) for n in self.tree.nodes() if n.locks)
        assert (cached, locked) == (self.tree.cached, self.tree.locked), "counters are off"
        held = [n for n in self.tree.nodes() if n.held and not n.locks]
        counts = sum(len(n.key) for n in held), sum(len(n.key) for n in held if n.shared_held)
        assert counts == (self.tree.held, self.tree.shared_held), "held tokens are not as counted"
        total = self.free + self.evictable + self.referenced
        assert total == self.num_slots, "free + cached + referenced is not the pool size"
        if owned:
            assert sum(map(len, owned)) == self.owned, "owned slots are lost"
