"""Orders of calls and instances in which a small cache computes as little as a boundless one.

Depth-first order of the trie of prompts: with a cache that holds at least the longest prompt and
evicts the least recently used leaf, each edge is computed once, which is the least that any order
and any cache can do (theorem 3.1 of "SGLang: Efficient Execution of Structured Language Model
Programs", arXiv 2312.07104). The children of a place may be visited in any order, so those with
the longest chain of calls to come go first: their decodes run beside the prompts of the others,
and the last thing that a run waits for is short.
"""

from __future__ import annotations

from collections.abc import Sequence

from sgc_ir.analysis.prefix_trie import Key, Place, PrefixTrie


def prompt_order(keys: Sequence[Key], weights: Sequence[float] | None = None) -> list[int]:
    """Positions of `keys` in the order to serve them.

    Args:
        keys: prompts, items comparable by equality.
        weights: for each, what is still to come behind it (tokens to decode on its longest chain);
            heavy ones go first, as far as depth-first order allows. Among equals: as given.
    """
    trie = PrefixTrie()
    ends: dict[Place, list[int]] = {}
    for i, key in enumerate(keys):
        ends.setdefault(trie.add(key), []).append(i)
    rank = _ranks(trie, ends, weights or [0.0] * len(keys))
    order: list[int] = []
    waiting: list[Place | list[int]] = [trie.root]
    while waiting:
        here = waiting.pop()
        if isinstance(here, list):
            order += here
            continue
        here_ends = sorted(ends.get(here, ()), key=lambda i: (-(weights[i] if weights else 0.0), i))
        children = sorted(here.children.values(), key=lambda place: rank[place])
        waiting += [*reversed(children), here_ends]
    return order


def _ranks(
    trie: PrefixTrie, ends: dict[Place, list[int]], weights: Sequence[float]
) -> dict[Place, tuple[float, int]]:
    """Place -> (minus the largest weight at or below it, the first prompt there)."""
    rank: dict[Place, tuple[float, int]] = {}
    for place in reversed([trie.root, *trie.places()]):
        own = [(-weights[i], i) for i in ends.get(place, ())]
        below = [rank[child] for child in place.children.values()]
        heaviest = min((w for w, _ in own + below), default=0.0)
        first = min((i for _, i in own + below), default=len(weights))
        rank[place] = (heaviest, first)
    return rank
