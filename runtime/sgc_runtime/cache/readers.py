"""What is known of later uses of the tree's nodes: who waits to read them, who will come, and what
nobody reads again. It moves their place in the order of eviction, and never locks anything."""

from __future__ import annotations

from sgc_runtime.cache.radix_tree import MADE, Claim, Node, RadixTree


class Readers:
    """Marks nodes of one tree."""

    def __init__(self, tree: RadixTree) -> None:
        self._tree = tree

    def wait_at(self, node: Node) -> None:
        """Somebody waits who goes on from `node`."""
        while node.parent is not None:
            was_held = node.held
            node.waiters += 1
            if not was_held and not node.locks:
                self._tree.count_held(node, len(node.key))
            node = node.parent

    def wait_no_more(self, node: Node) -> None:
        """Undo one `wait_at` of the same node, which may have died meanwhile."""
        while node.parent is not None:
            assert node.waiters > 0, "nobody waits here"
            if node.waiters == 1 and node.claim is None and not node.locks:
                self._tree.count_held(node, -len(node.key))
            node.waiters -= 1
            self._tree.requeue(node)
            node = node.parent

    def claim(self, node: Node, claim: Claim | None) -> None:
        """Let a claim, or none, take the place of the one that a living node has."""
        if node.claim is claim:
            return
        if not node.locks:
            self._tree.count_held(node, -len(node.key))
        if node.claim is not None:
            del node.claim.nodes[node]
        node.claim = claim
        if claim is not None:
            claim.nodes[node] = None
            node.released = 0
        if not node.locks:
            self._tree.count_held(node, len(node.key))
        self._tree.requeue(node)

    def drop(self, claim: Claim) -> None:
        """Nobody comes for it any more."""
        for node in list(claim.nodes):
            self.claim(node, None)

    def release(self, node: Node, what: int = MADE) -> None:
        """Nobody is known to read a living node again: it is among the first to go.

        Args:
            what: ASKED or MADE.
        """
        self.claim(node, None)
        node.released = what
        self._tree.requeue(node)

    def read(self, node: Node) -> int:
        """A call reads the path to `node`: how many of its tokens were computed ahead of any call
        and are read for the first time."""
        tokens = 0
        while node.parent is not None:
            if node.ahead:
                node.ahead = False
                tokens += len(node.key)
            node = node.parent
        return tokens
