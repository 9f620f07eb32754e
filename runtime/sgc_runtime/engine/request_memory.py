"""What a request does with the cache: take slots, hand computed ones over, give all back."""

from __future__ import annotations

from sgc_runtime.cache.prefix_cache import PrefixCache
from sgc_runtime.cache.radix_tree import MANY, Node
from sgc_runtime.engine.request import Request


def find_prefix(cache: PrefixCache, request: Request) -> tuple[Node, int]:
    """Where a waiting request leaves the tree, and after how many tokens; changes nothing."""
    if not request.may_match:
        return cache.tree.root, 0
    if not cache.has_tree:
        length = request.num_matchable
        return cache.find_whole(request.tokens[: length + 1], length, request.anchor)
    return cache.find(request.tokens[: request.num_matchable], request.anchor)


def lock_prefix(cache: PrefixCache, request: Request, node: Node, matched: int) -> Node:
    """The end of the cached prefix that `find_prefix` has just given, locked."""
    node = cache.reach(node, matched)
    cache.lock(node, user=_user(request))
    return node


def _user(request: Request) -> int | None:
    if request.is_ahead:
        return None
    return MANY if request.instance is None else request.instance


def take_slots(cache: PrefixCache, request: Request, node: Node) -> bool:
    """Slots for all that is to compute behind `node`, which is locked; False (and unlocked) when
    they are not to be had."""
    slots = cache.alloc(request.num_target - node.end)
    if slots is None:
        cache.unlock(node)
        return False
    request.node, request.num_matched = node, node.end
    request.slots[: node.end] = cache.path_slots(node)
    request.slots[node.end : request.num_target] = slots
    request.num_slots, request.num_computed = request.num_target, node.end
    return True


def store(cache: PrefixCache, request: Request, num_kept: int) -> None:
    """Let others find the KV of the first `num_kept` tokens, which are computed, or are in the
    step that is planned (`Admission.unshare`)."""
    node = request.node
    assert node is not None
    if num_kept <= node.end:
        return
    assert num_kept <= request.num_tokens, "an id that is not known has no place in the tree"
    held = node.end
    slot = request.slots[held]
    tokens, slots = request.tokens[:num_kept], request.slots[:num_kept]
    leaf = cache.store(tokens, slots, node, request.is_ahead)
    if request.slots[held] != slot:  # the tree knew tokens behind, and has given its own slots
        request.num_tabled = min(request.num_tabled, held)
    cache.lock(leaf, above=node, user=_user(request))  # the lock of `node` goes over to it
    leaf.whole = leaf.whole or num_kept >= request.num_asked
    request.node = leaf


def give_back(cache: PrefixCache, request: Request, num_kept: int) -> int:
    """Let go of everything; the KV of the first `num_kept` tokens, as far as it is computed, and
    what was stored before stays cached. Returns how many tokens this request added to the cache.
    """
    store(cache, request, min(num_kept, request.num_computed))
    node = request.node
    assert node is not None
    cache.release(request.slots[node.end : request.num_slots])
    cache.unlock(node)
    request.num_slots = 0
    request.leave()
    request.anchor, request.node = node, None
    return max(0, node.end - request.num_matched)


def give_back_end(cache: PrefixCache, request: Request, length: int) -> None:
    """Let go of what lies behind the first `length` tokens of a request in flight. What others
    find behind them stays, but for what its tokens do not say any more."""
    node = request.node
    assert node is not None
    if length >= request.num_slots:
        return
    cache.release(request.slots[max(length, node.end) : request.num_slots])
    request.num_slots = length
    request.num_computed = min(request.num_computed, length)
    request.num_tabled = min(request.num_tabled, length)
    if node.end > length:  # some of it was cached already
        kept = cache.match(request.tokens[:length])
        cache.lock(kept, user=_user(request))
        cache.unlock(node)
        cache.prune(node, request.num_tokens)
        request.node = kept
