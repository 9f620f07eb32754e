"""Prefixes that are being computed right now, so that rows sent together do not all miss."""

from __future__ import annotations

from collections.abc import Iterable

from sgc_runtime.cache.radix_tree import Node, common_prefix
from sgc_runtime.engine.request import Leader, Request


class PrefixesInFlight:
    """Requests in prefill, by the place where they leave the tree and their next token.

    Two sequences share tokens that the tree lacks exactly if these agree, so one look-up finds
    all that is worth waiting for.
    """

    def __init__(self, prefilling: Iterable[Request], min_tokens: int) -> None:
        self._min_tokens = min_tokens
        self._leaders: dict[tuple[int, int], list[Request]] = {}
        for request in prefilling:
            self.add(request)

    def add(self, request: Request) -> None:
        """`request` computes what follows its locked node."""
        node = request.node
        assert node is not None
        if node.end < request.num_linear:
            key = (id(node), int(request.tokens[node.end]))
            self._leaders.setdefault(key, []).append(request)

    def leader(self, request: Request, node: Node, matched: int) -> Leader | None:
        """Whoever computes enough of what `request` lacks, `matched` tokens into the tree at
        `node`."""
        lacking = request.tokens[matched : request.num_matchable]
        if matched != node.end or len(lacking) < self._min_tokens:
            return None
        for other in self._leaders.get((id(node), int(lacking[0])), ()):
            shared = common_prefix(other.tokens[matched : other.num_linear], lacking)
            if shared >= self._min_tokens:
                return Leader(other, matched + shared)
        return None
