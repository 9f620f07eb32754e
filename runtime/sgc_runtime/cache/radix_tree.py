"""A radix tree over token ids whose payload is one KV slot a token.

A node holds the tokens `[start, end)` of every sequence that passes through it, with their slots.
What may change under a reader's hands, and how:

| event            | this node keeps                      | other nodes                         |
|------------------|--------------------------------------|-------------------------------------|
| split            | the *lower* part, `end` unchanged    | a new upper node takes its place    |
| eviction, prune  | a shorter run: `end` falls           | an emptied node dies (not `alive`)  |
| insert           | everything                           | a new leaf hangs below              |

So a node that was once the end of a sequence stays a valid entry for it, without any lock:
`climb` walks up to the nearest node that is still alive, and what that one holds is a prefix of
the sequence.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]

_NO_IDS: Ids = np.empty(0, np.int32)
_NO_SLOTS: Slots = np.empty(0, np.int64)


class Node:
    """A run of tokens below `parent`; only the tree changes it."""

    __slots__ = (
        "alive",
        "children",
        "end",
        "key",
        "last_used",
        "locks",
        "parent",
        "queued",
        "slots",
    )

    def __init__(self, parent: Node | None, key: Ids, slots: Slots, end: int, tick: int) -> None:
        self.parent = parent
        self.key = key
        self.slots = slots
        self.end = end  # tokens from the root to the end of this node
        self.children: dict[int, Node] = {}
        self.locks = 0  # users of this node or of one below
        self.last_used = tick
        self.alive = True
        self.queued = False  # has an entry in the eviction heap

    @property
    def start(self) -> int:
        return self.end - len(self.key)

    @property
    def evictable(self) -> bool:
        return self.alive and not self.locks and not self.children and self.parent is not None


class RadixTree:
    """Match, insert, lock, evict; never touches the KV itself.

    `cached` counts all tokens in the tree, `locked` those that a lock protects.
    """

    def __init__(self) -> None:
        self.root = Node(None, _NO_IDS, _NO_SLOTS, 0, 0)
        self.cached = 0
        self.locked = 0
        self._tick = 0
        self._heap: list[tuple[int, int, Node]] = []  # (last_used when queued, serial, node)
        self._serial = 0

    # -- reading ------------------------------------------------------------------------------

    def find(self, ids: Ids, start: Node | None = None) -> tuple[Node, int]:
        """Deepest node that `ids` reaches and the number of matched tokens; changes nothing.

        `start`, when given, is on the path of `ids`, or was before eviction; the walk begins
        there. The match may end inside the node.
        """
        node = self.root if start is None else self.climb(start, len(ids))
        matched = node.end
        while matched < len(ids):
            child = node.children.get(int(ids[matched]))
            if child is None:
                break
            shared = common_prefix(child.key, ids[matched:])
            node, matched = child, matched + shared
            if shared < len(child.key):
                break
        return node, matched

    def climb(self, node: Node, length: int) -> Node:
        """The nearest node from `node` upwards that is alive and ends within `length` tokens."""
        while not node.alive or node.end > length:
            assert node.parent is not None, "the root never dies"
            node = node.parent
        return node

    def path_slots(self, node: Node) -> Slots:
        """Slots of all `node.end` tokens from the root to the end of `node`."""
        if node.parent is not None and node.parent.parent is None:
            return node.slots
        runs = [n.slots for n in self.path(node)]
        runs.reverse()
        return np.concatenate(runs) if runs else _NO_SLOTS

    def path(self, node: Node) -> Iterator[Node]:
        """`node` and its ancestors without the root, from below."""
        while node.parent is not None:
            yield node
            node = node.parent

    def nodes(self) -> Iterator[Node]:
        """All nodes without the root, for checks."""
        stack = list(self.root.children.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # -- growing ------------------------------------------------------------------------------

    def match(self, ids: Ids, start: Node | None = None) -> Node:
        """The node that ends exactly where the longest cached prefix of `ids` ends.

        A node that is matched in part is split. The whole path counts as used now.
        """
        return self.reach(*self.find(ids, start))

    def reach(self, node: Node, matched: int) -> Node:
        """`match` where `find` has just given these."""
        if matched < node.end:
            node = self._split(node, matched)
        self._touch(node)
        return node

    def insert(self, ids: Ids, slots: Slots, start: Node | None = None) -> tuple[Node, int]:
        """Add a sequence; returns its end node and how many of its tokens were there before.

        The tree takes over `slots[existing:]`; the slots before stay the caller's.
        `ids` and `slots` are copied.
        """
        node = self.match(ids, start)
        existing = node.end
        if existing == len(ids):
            return node, existing
        leaf = Node(node, ids[existing:].copy(), slots[existing:].copy(), len(ids), self._tick)
        node.children[int(leaf.key[0])] = leaf
        self.cached += len(leaf.key)
        self._queue(leaf)
        return leaf, existing

    # -- protecting ---------------------------------------------------------------------------

    # These and `_touch` run for every request of a step: plain loops, no generator.

    def lock(self, node: Node, above: Node | None = None) -> None:
        """Protect the path to `node` from eviction until `unlock`; with `above`, an ancestor, only
        what lies behind it (a lock of `above` becomes one of `node`)."""
        while node is not above and node.parent is not None:
            if node.locks == 0:
                self.locked += len(node.key)
            node.locks += 1
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Undo one `lock` of the same node."""
        while node.parent is not None:
            assert node.locks > 0, "unlock without lock"
            node.locks -= 1
            if node.locks == 0:
                self.locked -= len(node.key)
                if not node.children:
                    self._queue(node)
            node = node.parent

    # -- shrinking ----------------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Slots:
        """Drop up to `num_tokens` unlocked tokens, least recently used leaves first, each from
        its end; returns their slots. Fewer come back only when everything left is locked."""
        freed: list[Slots] = []
        missing = num_tokens
        while missing > 0 and self._heap:
            queued_tick, _, node = heapq.heappop(self._heap)
            node.queued = False
            if node.locks or node.children or not node.alive:
                continue
            if node.last_used != queued_tick:  # used since: it takes its new place
                self._queue(node)
                continue
            cut = self._truncate(node, len(node.key) - missing)
            freed.append(cut)
            missing -= len(cut)
        return np.concatenate(freed) if freed else _NO_SLOTS

    def prune(self, node: Node, length: int) -> Slots:
        """Drop the tokens behind `length` of the sequence that ended at `node`, as far as no one
        else continues or locks them; returns their slots."""
        freed: list[Slots] = []
        while not node.alive:
            assert node.parent is not None, "the root never dies"
            node = node.parent
        while node.evictable and node.end > length:
            parent = node.parent
            assert parent is not None
            freed.append(self._truncate(node, length - node.start))
            if node.alive:
                break
            node = parent
        return np.concatenate(freed) if freed else _NO_SLOTS

    # -- below --------------------------------------------------------------------------------

    def _split(self, node: Node, end: int) -> Node:
        parent, cut = node.parent, end - node.start
        assert parent is not None
        # Copies, so that neither part keeps the memory of the other alive.
        upper = Node(parent, node.key[:cut].copy(), node.slots[:cut].copy(), end, node.last_used)
        upper.locks = node.locks
        upper.children[int(node.key[cut])] = node
        parent.children[int(node.key[0])] = upper
        node.parent = upper
        node.key, node.slots = node.key[cut:].copy(), node.slots[cut:].copy()
        return upper

    def _touch(self, node: Node) -> None:
        self._tick += 1
        while node.parent is not None:
            node.last_used = self._tick
            node = node.parent

    def _truncate(self, node: Node, keep: int) -> Slots:
        """Cut a node without locks and children down to `keep` tokens; none: it dies."""
        parent, freed = node.parent, node.slots
        assert parent is not None
        if keep > 0:
            freed = freed[keep:]
            node.key, node.slots = node.key[:keep], node.slots[:keep]
            node.end -= len(freed)
            self._queue(node)
        else:
            del parent.children[int(node.key[0])]
            node.alive = False
            node.end -= len(freed)
            node.key, node.slots = _NO_IDS, _NO_SLOTS  # a soft hold may keep the node for long
            self._queue(parent)
        self.cached -= len(freed)
        return freed

    def _queue(self, node: Node) -> None:
        if not (node.queued or node.children or node.locks) and node.evictable:
            node.queued = True
            self._serial += 1
            heapq.heappush(self._heap, (node.last_used, self._serial, node))


def common_prefix(a: Ids, b: Ids) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    if n == 0 or a[0] != b[0]:
        return 0
    differ = a[:n] != b[:n]
    first = int(differ.argmax())
    return first if differ[first] else n
