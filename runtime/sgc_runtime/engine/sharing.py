"""Prefixes that are being computed right now, so that rows sent together do not all miss."""

from __future__ import annotations

from collections.abc import Iterable

from sgc_runtime.cache.radix_tree import Node, common_prefix
from sgc_runtime.engine.request import Leader, Request


class PrefixesInFlight:
    """Requests in prefill, by the place where they leave the tree and their next token.

    Two sequences share tokens that the tree lacks exactly if these agree, so one look-up finds
    all that others compute of what one lacks.

    Args:
        enabled: else nothing is shared.
    """

    def __init__(self, prefilling: Iterable[Request], enabled: bool = True) -> None:
        self._enabled = enabled
        self._leaders: dict[tuple[int, int], list[Request]] = {}
        for request in prefilling:
            self.add(request)

    def add(self, request: Request) -> None:
        """`request` computes what follows its locked node."""
        node = request.node
        assert node is not None
        if self._enabled and node.end < request.num_linear:
            key = (id(node), int(request.tokens[node.end]))
            self._leaders.setdefault(key, []).append(request)

    def leader(self, request: Request, node: Node, matched: int) -> Leader | None:
        """Whoever computes most of what `request` lacks, `matched` tokens into the tree at
        `node`."""
        if matched != node.end or matched >= request.num_matchable:
            return None
        lacking = request.tokens[matched : request.num_matchable]
        best, most = None, 0
        for other in self._leaders.get((id(node), int(lacking[0])), ()):
            shared = common_prefix(other.tokens[matched : other.num_linear], lacking)
            if shared > most:
                best, most = other, shared
        return None if best is None else Leader(best, matched + most)
