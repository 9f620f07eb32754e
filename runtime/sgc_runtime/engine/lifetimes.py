"""How long cached tokens are wanted, by what calls say of the calls to come.

A call's tokens fall into regions (`Region`), of each of which it knows whether its program instance
reads it again, and after how many tokens. When the call ends, that moves their place in the order
of eviction (`cache.readers`): what nobody reads again is the first to go, as far as no other
instance has used it (what it has generated before what it has asked, which others may ask too);
what is read again goes last, the latest next use first. Who waits in the queue holds what it will
find in the same way. Of two calls the one that was issued later knows better.

No instance keeps memory that it does not use: a rank locks nothing, and all claims of an instance
lapse when nothing of it was in the engine for a few steps.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import ASKED, FAR, MADE, Claim, Node
from sgc_runtime.engine.request import Region, Request

_MANY_CLAIMS = 64  # of one instance, before empty ones are sorted out


@dataclass(slots=True)
class _Present:
    """An instance: how many requests of it are in the engine, and what it claims.

    Attributes:
        later: tokens that calls which have not come yet may generate, where that is known.
    """

    requests: int = 0
    later: int | None = None
    claims: list[Claim] = field(default_factory=list)
    most: int = _MANY_CLAIMS

    def add(self, claim: Claim) -> None:
        """Claim more; now and then those that hold nothing are sorted out."""
        if len(self.claims) >= self.most:
            self.claims = [found for found in self.claims if found.nodes]
            self.most = max(_MANY_CLAIMS, 2 * len(self.claims))
        self.claims.append(claim)


class _Label(NamedTuple):
    request: Request
    region: Region
    claim: Claim | None


class Lifetimes:
    """Claims of the program instances.

    Args:
        enabled: else nothing is ever known.
        patience: steps without any request of an instance after which its claims lapse.
    """

    def __init__(self, cache: PrefixCache, enabled: bool, patience: int) -> None:
        self._cache, self._readers = cache, cache.readers
        self._enabled = enabled and cache.enabled
        self._patience = patience
        self._present: dict[int, _Present] = {}
        self._away: OrderedDict[int, int] = OrderedDict()  # instances with claims, since which step
        self._step = 0

    @property
    def num_claims(self) -> int:
        """Claims that hold something."""
        return sum(bool(c.nodes) for p in self._present.values() for c in p.claims)

    def comes(self, request: Request) -> None:
        """A request is new in the engine, and waits."""
        if not self._enabled:
            return
        self.waits(request)
        if request.instance is not None:
            present = self._present.setdefault(request.instance, _Present())
            present.requests += 1
            if request.more_tokens is not None:
                present.later = request.more_tokens
            self._away.pop(request.instance, None)

    def later(self, request: Request) -> int:
        """Tokens that calls of its instance which have not come yet may generate, as the last one
        that has come knows."""
        present = self._present.get(request.instance) if request.instance is not None else None
        said = request.more_tokens or 0
        return said if present is None or present.later is None else min(said, present.later)

    def waits(self, request: Request) -> None:
        """A request waits, perhaps again."""
        if not self._enabled:
            return
        node = request.anchor
        if node is None or node.parent is None:
            node = self._whole(*self._cache.find(request.tokens[: request.num_matchable]))
        if node.parent is not None:
            request.waits_at = node
            self._readers.wait_at(node)

    def begins(self, request: Request) -> None:
        """A request that waited is in flight, or gone."""
        if request.waits_at is not None:
            self._readers.wait_no_more(request.waits_at)
            request.waits_at = None

    def ends(self, request: Request, gave_result: bool) -> None:
        """A request leaves the engine, and holds nothing any more."""
        self.begins(request)
        if not self._enabled or request.instance is None:
            return
        present = self._present[request.instance]
        present.requests -= 1
        if gave_result and request.regions and request.anchor is not None:
            self._label(request, request.anchor, present)
        if present.requests == 0:
            present.claims = [claim for claim in present.claims if claim.nodes]
            if present.claims:
                self._away[request.instance] = self._step
            else:
                del self._present[request.instance]

    def lapse(self) -> None:
        """A step begins: drop what those that stayed away for too long claim."""
        self._step += 1
        while self._away:
            instance, since = next(iter(self._away.items()))
            if self._step - since <= self._patience:
                return
            del self._away[instance]
            for claim in self._present.pop(instance).claims:
                self._readers.drop(claim)

    # -- below --------------------------------------------------------------------------------

    @staticmethod
    def _whole(node: Node, matched: int) -> Node:
        """The last node that a match takes in as a whole."""
        if matched == node.end:
            return node
        assert node.parent is not None
        return node.parent

    def _label(self, request: Request, end: Node, present: _Present) -> None:
        node = end
        for region in reversed(request.regions):
            label = _Label(request, region, self._claim(request, region, present))
            while node.parent is not None and node.end > region.start:
                if node.start < region.start:
                    self._cache.tree.cut(node, region.start)
                if region.readers == 0 and node.start < request.num_prompt < node.end:
                    self._cache.tree.cut(node, request.num_prompt)
                self._mark(node, label)
                node = node.parent

    def _claim(self, request: Request, region: Region, present: _Present) -> Claim | None:
        if region.readers == 0 or request.instance is None:
            return None
        if region.readers is None and region is request.regions[-1]:
            return None  # nobody knows whether anybody reads the end
        due = FAR if region.next_use is None else min(FAR, self._step + region.next_use)
        present.add(Claim(request.instance, due))
        return present.claims[-1]

    def _mark(self, node: Node, label: _Label) -> None:
        request, region, claim = label
        if node.label > request.arrival:
            return
        node.label = request.arrival
        own = node.claim is not None and node.claim.instance == request.instance
        if claim is not None:
            self._readers.claim(node, claim)
        elif region.readers == 0 and node.user == request.instance:
            self._readers.release(node, MADE if node.start >= request.num_prompt else ASKED)
        elif own:
            self._readers.claim(node, None)
