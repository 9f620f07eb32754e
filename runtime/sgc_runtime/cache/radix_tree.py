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

What may be given up goes in this order (`Node.rank`):

| rank     | what                                                   | order within it           |
|----------|--------------------------------------------------------|---------------------------|
| released | its last reader is done                                | what calls generated      |
|          |                                                        | before what they asked,   |
|          |                                                        | least recently used first |
| unknown  | nobody has said anything                               | least recently used first |
| held     | a call that waits or is claimed to come reads it again | latest next use first     |
|          | (`readers`)                                            | (Belady's rule)           |

That is an order and no lock: when nothing else is left, what is held goes too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sgc_runtime.cache.eviction import EvictionQueue

Ids = npt.NDArray[np.int32]
Slots = npt.NDArray[np.int64]

_NO_IDS: Ids = np.empty(0, np.int32)
_NO_SLOTS: Slots = np.empty(0, np.int64)
_RANK = 1 << 60  # more than there are uses or steps

FAR = 1 << 50  # a next use of which nobody knows when it is
ASKED, MADE = 1, 2  # what is released: other instances may ask the same, none generates it
MANY = -1  # user of what several program instances, or none, have used


class Claim:
    """Calls to come of one program instance read some nodes.

    Args:
        instance: the program instance.
        due: the step in which the first of them is to come.
    """

    __slots__ = ("due", "instance", "nodes")

    def __init__(self, instance: int, due: int) -> None:
        self.instance, self.due = instance, due
        self.nodes: dict[Node, None] = {}


class Node:
    """A run of tokens below `parent`; only the tree changes it.

    Attributes:
        claim: whoever is to read it again.
        waiters: requests in the queue that go on from here or from below.
        released: 0, or its last reader is done: ASKED, or MADE if a call generated it.
        user: the program instance that alone has locked it so far, MANY, or None.
        ahead: computed before any call asked for it, and no call has read it yet.
        whole: a prompt, or a prompt with its answer, ends here.
        label: number of the request that said last what becomes of it.
    """

    __slots__ = (
        "ahead",
        "alive",
        "children",
        "claim",
        "end",
        "key",
        "label",
        "last_used",
        "locks",
        "parent",
        "queued",
        "released",
        "slots",
        "user",
        "waiters",
        "whole",
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
        self.queued: int | None = None  # rank at which it waits for its eviction
        self.claim: Claim | None = None
        self.waiters = 0
        self.released = 0
        self.ahead = self.whole = False
        self.user: int | None = None
        self.label = -1

    @property
    def start(self) -> int:
        return self.end - len(self.key)

    @property
    def evictable(self) -> bool:
        return self.alive and not self.locks and not self.children and self.parent is not None

    @property
    def held(self) -> bool:
        """Whether somebody is known to read it again."""
        return self.waiters > 0 or self.claim is not None

    @property
    def shared_held(self) -> bool:
        """Whether it is held, has served several instances, and nobody knows when it is read."""
        far = self.claim is None or self.claim.due >= FAR
        return far and self.held and self.user == MANY

    @property
    def rank(self) -> int:
        """Its place in the order of eviction."""
        if self.waiters:
            return 2 * _RANK
        if self.claim is not None:
            return 2 * _RANK - self.claim.due
        return self.last_used - _RANK * self.released


class RadixTree:
    """Match, insert, lock, evict; never touches the KV itself.

    `cached` counts all tokens in the tree, `locked` those that a lock protects, `held` those
    without a lock that are known to be read again, `shared_held` those of them that several
    instances have read and nobody knows when again.
    """

    def __init__(self) -> None:
        self.root = Node(None, _NO_IDS, _NO_SLOTS, 0, 0)
        self.cached = self.locked = self.held = self.shared_held = 0
        self._tick = 0
        self._leaves: EvictionQueue[Node] = EvictionQueue()

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

    def insert(
        self, ids: Ids, slots: Slots, start: Node | None = None, ahead: bool = False
    ) -> tuple[Node, int]:
        """Add a sequence; returns its end node and how many of its tokens were there before.

        The tree takes over `slots[existing:]`; the slots before stay the caller's.
        `ids` and `slots` are copied. `ahead`: see `Node`.
        """
        node = self.match(ids, start)
        existing = node.end
        if existing == len(ids):
            return node, existing
        leaf = Node(node, ids[existing:].copy(), slots[existing:].copy(), len(ids), self._tick)
        leaf.ahead = ahead
        node.children[int(leaf.key[0])] = leaf
        self.cached += len(leaf.key)
        self.requeue(leaf)
        return leaf, existing

    # -- protecting ---------------------------------------------------------------------------

    # These and `_touch` run for every request of a step: plain loops, no generator.

    def lock(self, node: Node, above: Node | None = None, user: int | None = MANY) -> None:
        """Protect the path to `node` from eviction until `unlock`; with `above`, an ancestor, only
        what lies behind it (a lock of `above` becomes one of `node`).

        Args:
            user: the program instance that uses the path; None: nobody does yet.
        """
        while node is not above and node.parent is not None:
            if node.locks == 0:
                self.locked += len(node.key)
                self.count_held(node, -len(node.key))
            node.locks += 1
            if node.user != user and user is not None:
                node.user = user if node.user is None else MANY
                node.released = 0
            node = node.parent

    def unlock(self, node: Node) -> None:
        """Undo one `lock` of the same node."""
        while node.parent is not None:
            assert node.locks > 0, "unlock without lock"
            node.locks -= 1
            if node.locks == 0:
                self.locked -= len(node.key)
                self.count_held(node, len(node.key))
                if not node.children:
                    self.requeue(node)
            node = node.parent

    # -- shrinking ----------------------------------------------------------------------------

    def evict(self, num_tokens: int) -> Slots:
        """Drop up to `num_tokens` unlocked tokens, leaves of the lowest rank first, each from its
        end; returns their slots. Fewer come back only when everything left is locked."""
        freed: list[Slots] = []
        missing = num_tokens
        while missing > 0:
            node, queued = self._leaves.pop()
            if node is None:
                break
            if not node.evictable:
                continue
            if node.rank != queued:  # used since: it takes its new place
                self.requeue(node)
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

    def requeue(self, node: Node) -> None:
        """The rank of a node may have fallen."""
        if not (node.children or node.locks) and node.evictable:
            self._leaves.push(node)

    def count_held(self, node: Node, tokens: int) -> None:
        """So many tokens of a node come to those without a lock that are held, if it is."""
        if node.held:
            self.held += tokens
            self.shared_held += tokens * node.shared_held

    def cut(self, node: Node, end: int) -> None:
        """Let a node begin behind token `end`, which is inside; what lies before is its parent."""
        self._split(node, end)

    # -- below --------------------------------------------------------------------------------

    def _split(self, node: Node, end: int) -> Node:
        parent, cut = node.parent, end - node.start
        assert parent is not None
        # Copies, so that neither part keeps the memory of the other alive.
        upper = Node(parent, node.key[:cut].copy(), node.slots[:cut].copy(), end, node.last_used)
        upper.locks, upper.waiters, upper.label = node.locks, node.waiters, node.label
        upper.user, upper.released, upper.ahead = node.user, node.released, node.ahead
        upper.claim = node.claim
        if upper.claim is not None:
            upper.claim.nodes[upper] = None
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
        self.count_held(node, max(0, keep) - len(freed))
        if keep > 0:
            freed = freed[keep:]
            node.key, node.slots = node.key[:keep], node.slots[:keep]
            node.end -= len(freed)
            node.whole = False
            self.requeue(node)
        else:
            del parent.children[int(node.key[0])]
            node.alive = False
            self._leaves.drop(node)
            if node.claim is not None:
                del node.claim.nodes[node]
                node.claim = None
            node.end -= len(freed)
            node.key, node.slots = _NO_IDS, _NO_SLOTS  # a soft hold may keep the node for long
            self.requeue(parent)
        self.cached -= len(freed)
        return freed


def common_prefix(a: Ids, b: Ids) -> int:
    """Length of the longest common prefix."""
    n = min(len(a), len(b))
    if n == 0 or a[0] != b[0]:
        return 0
    differ = a[:n] != b[:n]
    first = int(differ.argmax())
    return first if differ[first] else n
