"""Why prompt tokens were computed more than once."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from sgc_runtime.cache.radix_tree import Ids, Node, RadixTree, Slots
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.scheduler import Chunk

_NOBODY = -1  # instance of a request that belongs to none
_LAST = 1  # the token whose logits are wanted is computed even where it is cached


@dataclass(slots=True)
class Causes:
    """Prompt tokens that had been computed before.

    Attributes:
        retracted: of a request whose memory was taken away.
        own: of the same program instance, evicted since.
        others: of other instances, evicted since.
        beside: still cached, or being computed for another request.
        covered: the last token of a prompt that was cached as a whole.
    """

    retracted: int = 0
    own: int = 0
    others: int = 0
    beside: int = 0
    covered: int = 0

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


class CauseFinder:
    """Told of every chunk, before it is computed.

    Args:
        tree: of the engine's cache.
    """

    def __init__(self, tree: RadixTree) -> None:
        self.causes = Causes()
        self._tree = tree
        self._ever = RadixTree()  # all that was computed; its payload: for which instance

    def see(self, chunk: Chunk) -> None:
        """A chunk is about to be computed."""
        request, start, end = chunk
        end = min(end, request.num_linear)
        if request.state is State.RUNNING or start >= end:
            return
        ids = request.tokens[:end]
        known = self._owners(ids)
        if len(known) > start:
            self._count(request, start, known)
        self.made(ids, request.instance)

    def made(self, ids: Ids, instance: int | None) -> None:
        """The KV of all of `ids` was computed, by whatever means."""
        owner = _NOBODY if instance is None else instance
        self._ever.insert(ids, np.full(len(ids), owner, np.int64))

    def _count(self, request: Request, start: int, owners: Slots) -> None:
        assert request.node is not None
        causes, twice = self.causes, len(owners) - start
        found = self._tree.find(request.tokens[: len(owners)])[1]
        own_end = max(start, request.node.end)  # what it computes may stand in the tree already
        cached = max(0, found - own_end)
        if request.num_lost:
            causes.retracted += twice
        elif twice == _LAST and len(owners) == request.num_target and found == len(owners):
            causes.covered += _LAST
        else:
            lost = np.concatenate([owners[start:own_end], owners[own_end + cached :]])
            own = int(np.count_nonzero(lost == request.instance))
            causes.beside += cached
            causes.own += own
            causes.others += len(lost) - own

    def _owners(self, ids: Ids) -> Slots:
        node, matched = self._ever.find(ids)
        return _payload(self._ever, node)[:matched]


def _payload(tree: RadixTree, node: Node) -> Slots:
    return tree.path_slots(node) if node.parent is not None else np.empty(0, np.int64)
