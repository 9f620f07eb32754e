"""Which experts compute a token, and its rows in order of their expert: made on the device, so that
a captured graph serves any choice.

A pair is a token with one of its experts, number `token * top_k + j`. Pairs are sorted by expert
with tokens in order (a counting sort: a token has an expert once, so its place among the pairs of
an expert is a running count). Products walk the sorted pairs in blocks of `block` rows of one
expert; their list is as long as the worst case needs, the rest of it is marked empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sgc_kernels.gpu.moe.scores import score
from sgc_kernels.gpu.moe.sorting import list_blocks, place_pairs, sum_up
from sgc_kernels.moe import Experts

_TILE = 2048  # numbers of a program: tokens times experts
_MOST_TOKENS = 32  # of a program
_FEW_TOKENS = 64  # up to so many are sorted by one program
_LISTED = 32  # blocks that a program lists at once


@dataclass(frozen=True, slots=True)
class Routes:
    """The choice of a step, on the device.

    Attributes:
        experts: `[T, top_k]` int32.
        weights: `[T, top_k]` float32.
        order: `[T * top_k]` int32, pairs by expert; None: not asked for.
        table: `[3, max_blocks]` int32: expert of a block (-1: it is empty), its first place in
            `order`, and where the places of its expert end.
        block: rows of a block.
    """

    experts: torch.Tensor
    weights: torch.Tensor
    order: torch.Tensor | None
    table: torch.Tensor | None
    block: int


@triton.jit
def _pick(
    scores: tl.tensor,
    tokens: tl.tensor,
    token: tl.tensor,
    PARTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    BLOCK: tl.constexpr,
    TOP_K: tl.constexpr,
    PLACES: tl.constexpr,
    RENORMALISE: tl.constexpr,
) -> tl.tensor:
    """Experts and weights `[tokens, PLACES]`, and which were chosen, `[tokens, BLOCK]` 0 or 1.

    Scores that are no numbers count as the smallest, so that TOP_K different experts are found
    whatever they are; the weights of such a token are no numbers either.
    """
    expert = tl.arange(0, BLOCK)[None, :]
    place = tl.arange(0, PLACES)[None, :]
    inside = (token < tokens)[:, None]
    within = inside & (expert < EXPERTS)
    at = scores + token[:, None] * EXPERTS + expert
    raw = tl.load(at, mask=within, other=0.0)
    for part in tl.static_range(1, PARTS):
        raw += tl.load(at + part * tokens * EXPERTS, mask=within, other=0.0)
    key = tl.where((raw == raw) & (raw > -3e38), raw, -3e38)
    key = tl.where(expert < EXPERTS, key, -float("inf"))
    top = tl.max(key, axis=1)[:, None]
    found = tl.zeros([token.shape[0], PLACES], dtype=tl.int32)
    weight = tl.zeros([token.shape[0], PLACES], dtype=tl.float32)
    left = key
    total = tl.zeros([token.shape[0], 1], dtype=tl.float32)
    for j in tl.static_range(TOP_K):
        best = tl.max(left, axis=1)[:, None]
        number = tl.min(tl.where(left == best, expert, BLOCK), axis=1)[:, None]
        is_it = expert == number
        found = tl.where(place == j, number, found)
        share = tl.exp(best - top)
        weight = tl.where(place == j, share, weight)
        total += share  # in this order, whatever the layout
        left = tl.where(is_it, -float("inf"), left)
    chosen = tl.where((left == -float("inf")) & within, 1, 0)
    if not RENORMALISE:
        total = tl.sum(tl.exp(key - top), axis=1)[:, None]
    doubt = tl.sum(raw * 0.0, axis=1)  # 0, or no number
    return found, weight / total + doubt[:, None], chosen


@triton.jit(do_not_specialize=["tokens", "max_blocks"])
def _route_few(
    scores: tl.tensor,
    experts: tl.tensor,
    weights: tl.tensor,
    order: tl.tensor,
    table: tl.tensor,
    tokens: tl.tensor,
    max_blocks: tl.tensor,
    PARTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    BLOCK: tl.constexpr,
    TOP_K: tl.constexpr,
    PLACES: tl.constexpr,
    RENORMALISE: tl.constexpr,
    TOKENS: tl.constexpr,
    LISTED: tl.constexpr,
    ROWS: tl.constexpr,
    SORT: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """All of it in one program, for at most TOKENS tokens."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    token = tl.arange(0, TOKENS)
    inside = token < tokens
    found, weight, chosen = _pick(
        scores, tokens, token, PARTS, EXPERTS, BLOCK, TOP_K, PLACES, RENORMALISE
    )
    place = tl.arange(0, PLACES)[None, :]
    pair = token[:, None] * TOP_K + place
    is_pair = inside[:, None] & (place < TOP_K)
    tl.store(experts + pair, found, mask=is_pair)
    tl.store(weights + pair, weight, mask=is_pair)
    if SORT:
        counts = tl.sum(chosen, axis=0)
        starts = tl.cumsum(counts, axis=0) - counts
        before = tl.cumsum(chosen, axis=0) - chosen + starts[None, :]
        tl.store(order + tl.gather(before, found, axis=1), pair, mask=is_pair)
        for first in range(0, max_blocks, LISTED):
            block = first + tl.arange(0, LISTED)
            list_blocks(table, block, max_blocks, counts, starts, EXPERTS, ROWS)


@triton.jit(do_not_specialize=["tokens"])
def _choose(
    scores: tl.tensor,
    experts: tl.tensor,
    weights: tl.tensor,
    ranks: tl.tensor,
    counts: tl.tensor,
    tokens: tl.tensor,
    PARTS: tl.constexpr,
    EXPERTS: tl.constexpr,
    BLOCK: tl.constexpr,
    TOP_K: tl.constexpr,
    PLACES: tl.constexpr,
    RENORMALISE: tl.constexpr,
    TOKENS: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """A block of tokens: its choice, each pair's place among the block's pairs of its expert, and
    how many those are."""
    if PDL:
        gdc_launch_dependents()
        gdc_wait()
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    inside = token < tokens
    found, weight, chosen = _pick(
        scores, tokens, token, PARTS, EXPERTS, BLOCK, TOP_K, PLACES, RENORMALISE
    )
    place = tl.arange(0, PLACES)[None, :]
    pair = token[:, None] * TOP_K + place
    is_pair = inside[:, None] & (place < TOP_K)
    tl.store(experts + pair, found, mask=is_pair)
    tl.store(weights + pair, weight, mask=is_pair)
    rank = tl.cumsum(chosen, axis=0) - chosen
    tl.store(ranks + pair, tl.gather(rank, found, axis=1), mask=is_pair)
    tl.store(counts + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.sum(chosen, axis=0))


def most_blocks(pairs: int, experts: int, rows: int) -> int:
    """Blocks of `rows` rows that the worst choice needs."""
    return (pairs + min(experts, pairs) * (rows - 1)) // rows


def route(
    x: torch.Tensor,
    experts: Experts,
    block: int,
    sort: bool,
    pdl: bool,
    invariant: bool = False,
) -> Routes:
    """As `sgc_kernels.moe.route`, with the order of the pairs if `sort`.

    Scores are float32 and do not depend on the other rows of `x`.

    Args:
        x: `[T, hidden]`, T > 0, rows in one piece.
        block: rows of a block of the table.
        pdl: start kernels while the one before ends (compute capability 9.0 and later).
        invariant: weights do not depend on the number of tokens, bit by bit.
    """
    tokens, count = x.shape[0], experts.router.shape[0]
    scores = score(x, experts.router, pdl)
    chosen = torch.empty((tokens, experts.top_k), dtype=torch.int32, device=x.device)
    weights = torch.empty((tokens, experts.top_k), dtype=torch.float32, device=x.device)
    max_blocks = most_blocks(chosen.numel(), count, block)
    order = torch.empty(chosen.numel(), dtype=torch.int32, device=x.device) if sort else None
    table = torch.empty((3, max_blocks), dtype=torch.int32, device=x.device) if sort else None
    routes = Routes(chosen, weights, order, table, block)
    options = {"launch_pdl": True} if pdl else {}
    width = triton.next_power_of_2(count)
    few = min(_FEW_TOKENS, max(1, 2 * _TILE // width))
    if invariant and not experts.renormalise:
        few = 0  # sums over all experts depend on how a program is laid out
    assert sort or tokens <= few, "many tokens are sorted"
    launch = _launch_few if tokens <= few else _launch_many
    launch(scores, experts, routes, width, max_blocks, options)
    return routes


def _launch_few(
    scores: torch.Tensor,
    experts: Experts,
    routes: Routes,
    width: int,
    max_blocks: int,
    options: dict[str, bool],
) -> None:
    parts, tokens, count = scores.shape
    numbers = max(4, triton.next_power_of_2(tokens)) * width
    _route_few[(1,)](
        scores,
        routes.experts,
        routes.weights,
        routes.order,
        routes.table,
        tokens,
        max_blocks,
        PARTS=parts,
        EXPERTS=count,
        BLOCK=width,
        TOP_K=experts.top_k,
        PLACES=triton.next_power_of_2(experts.top_k),
        RENORMALISE=experts.renormalise,
        TOKENS=numbers // width,
        LISTED=_LISTED if max_blocks > 8 else 8,
        ROWS=routes.block,
        SORT=routes.order is not None,
        PDL=bool(options),
        num_warps=1 if numbers <= 512 else 4 if numbers <= 1024 else 8,
        **options,
    )


def _launch_many(
    scores: torch.Tensor,
    experts: Experts,
    routes: Routes,
    width: int,
    max_blocks: int,
    options: dict[str, bool],
) -> None:
    parts, tokens, count = scores.shape
    each = min(_MOST_TOKENS, max(1, _TILE // width))
    blocks = triton.cdiv(tokens, each)
    ranks = torch.empty_like(routes.experts)
    counts = torch.empty((2 * blocks + 1, width), dtype=torch.int32, device=scores.device)
    bases, totals = counts[blocks:], counts[2 * blocks :]
    shape = {
        "BLOCK": width,
        "TOP_K": experts.top_k,
        "PLACES": triton.next_power_of_2(experts.top_k),
        "EXPERTS": count,
        "TOKENS": each,
        "PDL": bool(options),
        **options,
    }
    picked = (routes.experts, routes.weights, ranks, counts)
    _choose[(blocks,)](
        scores, *picked, tokens, PARTS=parts, RENORMALISE=experts.renormalise, **shape
    )
    sum_up[(1,)](
        counts,
        bases,
        totals,
        blocks,
        BLOCK=width,
        CHUNK=each,
        PDL=bool(options),
        num_warps=8,
        **options,
    )
    sorted_to = (routes.order, routes.table, tokens, max_blocks)
    programs = max(blocks, triton.cdiv(max_blocks, _LISTED))
    place_pairs[(programs,)](
        routes.experts, ranks, bases, totals, *sorted_to, LISTED=_LISTED, ROWS=routes.block, **shape
    )
