"""A draw from a row whose filters keep few tokens, which are sorted to read thresholds off."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.row import Cuts, Excluded, Row
from sgc_kernels.gpu.sampling.tile import of_key, order_key
from sgc_kernels.gpu.sampling.whole_row import best_of, excluded_from

FEW = tl.constexpr(256)
NOT_FEW = tl.constexpr(-2)  # there are more than that: nothing was drawn


@triton.jit
def pick_out(
    keys: tl.tensor, column: tl.tensor, floor: tl.tensor, few: tl.tensor, nothing: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """The keys from `floor` on, FEW at most, and their tokens; `nothing` fills up."""
    over = (keys >= floor).to(tl.int32)
    counts = tl.sum(over, 1)
    before = tl.cumsum(counts, 0) - counts
    place = before[:, None] + tl.cumsum(over, 1) - 1
    there = (over > 0) & (place < FEW)
    tl.store(few + place, keys, mask=there)
    tl.store(few + FEW + place, column, mask=there)
    tl.debug_barrier()  # what was stored by other threads is loaded next
    i = tl.arange(0, FEW)
    inside = i < tl.sum(counts, 0)
    own = tl.load(few + i, mask=inside, other=nothing)
    return own, tl.load(few + FEW + i, mask=inside, other=0)


@triton.jit
def draw_from_few(
    keys: tl.tensor,
    column: tl.tensor,
    floor: tl.tensor,
    few: tl.tensor,
    whole: tl.tensor,
    row: Row,
    cuts: Cuts,
    ranked: tl.tensor,
    key: tl.tensor,
    excluded: Excluded,
) -> tl.tensor:
    """A token of those kept, -1 where all of these are excluded; NOT_FEW where one below `floor`
    may be among them.

    Args:
        keys, column: order keys and token ids, of which at most FEW reach `floor`; all tokens of
            the row that reach it are among them, those excepted that equal it.
        whole: sum of the row's weights.
        ranked: whether there is a top-k, which at least so many of `keys` reach.
    """
    nothing = order_key(tl.full([], float("-inf"), tl.float32))
    own, token = pick_out(keys, column, floor, few, nothing)
    best = tl.sort(own, descending=True)
    weights = tl.exp2((of_key(best) - row.top) * row.scale)
    rank = tl.arange(0, FEW)
    inside = rank < tl.where(ranked, cuts.top_k, FEW)
    held = tl.sum(tl.where(inside, weights, 0.0), 0)
    target = tl.where(cuts.top_p < 1.0, cuts.top_p * tl.where(ranked, held, whole), float("inf"))
    before = tl.cumsum(weights, 0) - weights
    kept = inside & (before < target)
    last = tl.maximum(tl.sum(kept.to(tl.int32), 0), 1) - 1
    least = tl.maximum(tl.max(tl.where(rank == last, best, -(2**31)), 0), nothing + 1)
    # Where the nucleus has them all, more may belong to it; and some that equal `floor` may lack.
    known = ranked | (held >= target)
    lower = tl.exp2((of_key(floor) - row.top) * row.scale)
    found = tl.full([], NOT_FEW, tl.int32)
    if (known & (least > floor)) | (lower < cuts.min_p):
        mine = of_key(own)
        some = (own >= least) & (tl.exp2((mine - row.top) * row.scale) >= cuts.min_p)
        some = some & (excluded_from(token, excluded) == 0)
        score, drawn = best_of(mine, token, some, row.scale, row.top, key)
        found = tl.where(score > float("-inf"), drawn, -1)
    return found
