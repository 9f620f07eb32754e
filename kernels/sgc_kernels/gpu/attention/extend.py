"""Attention of new tokens over paged keys and values (extend), causal, in Triton.

A tile is a few consecutive tokens of one sequence with all query heads of one key head: they are
the rows of one matrix product, so that a key is read once for the whole group. A tile walks the
slots of its context in blocks with an online softmax in base 2 (Milakov and Gimelshein, 2018; Dao
et al., 2022): first the blocks that all its tokens see whole, then those that need a mask. Where a
step has fewer tiles than the GPU takes, a tile's context is cut into items whose results, with the
logarithm of their weights' sum, are merged by a second kernel.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.eight_bits import beside
from sgc_kernels.gpu.launcher import Arguments, Form, Launcher, Prepared

ITEM = 8  # int32 of an item: see `ITEM_FIELDS`
ITEM_FIELDS = (
    "row",  # of q, the tile's first
    "tokens",  # 0: the item does nothing
    "context",  # offset of the sequence's slots
    "start",  # keys start:end of the context
    "end",
    "position",  # of the tile's first token in the context
    "partial",  # of the first token; -1: the result is final
    "unused",
)
MERGE = 8  # int32 of a merge: see `MERGE_FIELDS`
MERGE_FIELDS = (
    "row",  # of q
    "first",  # partial result of a prefix that is read with other sequences
    "distance",  # between its parts
    "count",  # of them
    "own_first",  # the same for the other keys
    "own_distance",
    "own_count",
    "unused",
)

_NOTHING = tl.constexpr(-1.0e30)  # below every score, and finite: differences of it are no NaN


@dataclass(frozen=True, slots=True)
class Tile:
    """One form of the kernel."""

    lines: int  # tokens x query heads of a key head, at most; a power of two
    keys: int  # of a block
    warps: int
    stages: int
    programs: int  # that one multiprocessor should have at least: else contexts are cut
    registers: int | None = None  # of a thread at most, so that several programs fit; None: as many
    hopper: bool = False  # for `extend_hopper.attend_items`


@triton.jit
def _walk(
    acc: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    q: tl.tensor,
    k_cache: tl.tensor,
    v_cache: tl.tensor,
    slots: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    end: tl.tensor,
    position: tl.tensor,
    scale: tl.tensor,
    window: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    MASKED: tl.constexpr,
    WINDOWED: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
) -> tl.tensor:
    """Online softmax over the keys `first:last`; those from `end` on are hidden."""
    key = tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK_D)
    # The next block's slots are read a block ahead, so that its keys need not wait for them.
    here = tl.load(slots + tl.minimum(first + key, end - 1))
    for at in range(first, last, BLOCK_N):
        place = here.to(tl.int64) if WIDE else here.to(tl.int32)
        k_at = k_cache + place[:, None] * k_stride + column[None, :]
        v_at = v_cache + place[:, None] * v_stride + column[None, :]
        if HEAD_DIM == BLOCK_D:
            k = tl.load(k_at).to(q.dtype)
            v = tl.load(v_at).to(q.dtype)
        else:
            k = tl.load(k_at, mask=column[None, :] < HEAD_DIM, other=0.0).to(q.dtype)
            v = tl.load(v_at, mask=column[None, :] < HEAD_DIM, other=0.0).to(q.dtype)
        here = tl.load(slots + tl.minimum(at + BLOCK_N + key, end - 1))
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        if MASKED:
            seen = at + key
            visible = (seen[None, :] <= position[:, None]) & (seen[None, :] < end)
            if WINDOWED:
                visible = visible & (seen[None, :] > position[:, None] - window)
            scores = tl.where(visible, scores, float("-inf"))
        highest = tl.maximum(top, tl.max(scores, axis=1) * scale)
        weights = tl.math.exp2(scores * scale - highest[:, None])
        factor = tl.math.exp2(top - highest)
        total = total * factor + tl.sum(weights, axis=1)
        acc = acc * factor[:, None]
        acc = tl.dot(weights.to(v.dtype), v, acc, input_precision=PRECISION)
        top = highest
    return acc, top, total


@triton.jit(do_not_specialize=["window"])
def _extend(
    q: tl.tensor,
    k_cache: tl.tensor,
    v_cache: tl.tensor,
    slots: tl.tensor,
    items: tl.tensor,
    out: tl.tensor,
    partial_sums: tl.tensor,
    partial_logs: tl.tensor,
    scale: tl.tensor,
    window: tl.tensor,
    q_stride: tl.tensor,
    q_head_stride: tl.tensor,
    k_stride: tl.tensor,
    k_head_stride: tl.tensor,
    v_stride: tl.tensor,
    v_head_stride: tl.tensor,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOWED: tl.constexpr,
    WIDE: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    program = tl.program_id(0)
    kv_head = program % KV_HEADS
    item = items + program // KV_HEADS * 8
    tokens = tl.load(item + 1)
    if tokens == 0:
        return
    row = tl.load(item).to(tl.int64)
    slots += tl.load(item + 2)
    start = tl.load(item + 3)
    end = tl.load(item + 4)
    position = tl.load(item + 5)
    partial = tl.load(item + 6)

    line = tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_D)
    token = line // GROUP
    head = kv_head * GROUP + line % GROUP
    live = (token < tokens)[:, None] & (column < HEAD_DIM)[None, :]
    q += row * q_stride
    q_at = q + token[:, None] * q_stride + head[:, None] * q_head_stride + column[None, :]
    queries = beside(tl.load(q_at, mask=live, other=0.0), k_cache)
    k_cache += kv_head * k_head_stride
    v_cache += kv_head * v_head_stride

    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    top = tl.full((BLOCK_M,), _NOTHING, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    if WINDOWED:
        start = tl.maximum(start, position - window + 1)
        masked = start
    else:
        # The keys up to the first token are seen by every token of the tile.
        whole = tl.maximum(tl.minimum(position + 1, end) - start, 0)
        masked = start + whole // BLOCK_N * BLOCK_N
        acc, top, total = _walk(
            acc, top, total, queries, k_cache, v_cache, slots, start, masked, end,
            position + token, scale, window, k_stride, v_stride,
            HEAD_DIM, BLOCK_D, BLOCK_N, False, False, WIDE, PRECISION,
        )  # fmt: skip
    acc, top, total = _walk(
        acc, top, total, queries, k_cache, v_cache, slots, masked, end, end,
        position + token, scale, window, k_stride, v_stride,
        HEAD_DIM, BLOCK_D, BLOCK_N, True, WINDOWED, WIDE, PRECISION,
    )  # fmt: skip

    heads = KV_HEADS * GROUP
    sums = tl.where(total > 0, total, 1.0)
    result = acc / sums[:, None]
    if partial < 0:
        at = ((row + token) * heads + head)[:, None] * HEAD_DIM + column[None, :]
        tl.store(out + at, result.to(out.dtype.element_ty), mask=live)
    else:
        place = (partial + token).to(tl.int64) * heads + head
        tl.store(partial_sums + place[:, None] * HEAD_DIM + column[None, :], result, mask=live)
        logs = tl.where(total > 0, top + tl.log2(sums), float("-inf"))
        tl.store(partial_logs + place, logs, mask=token < tokens)


@triton.jit
def _merge(
    partial_sums: tl.tensor,
    partial_logs: tl.tensor,
    merges: tl.tensor,
    out: tl.tensor,
    NUM_HEADS: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
) -> None:
    merge = merges + tl.program_id(0) * 8
    row = tl.load(merge).to(tl.int64)
    first, distance, count = tl.load(merge + 1), tl.load(merge + 2), tl.load(merge + 3)
    own_first, own_distance = tl.load(merge + 4), tl.load(merge + 5)
    own_count = tl.load(merge + 6)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    column = tl.arange(0, BLOCK_D)
    live = (head < NUM_HEADS)[:, None] & (column < HEAD_DIM)[None, :]
    acc = tl.zeros((HEADS, BLOCK_D), tl.float32)
    top = tl.full((HEADS,), _NOTHING, tl.float32)
    total = tl.zeros((HEADS,), tl.float32)
    for part in range(0, count + own_count):
        own = own_first + (part - count) * own_distance
        partial = tl.where(part < count, first + part * distance, own)
        place = partial.to(tl.int64) * NUM_HEADS + head
        log = tl.load(partial_logs + place, mask=head < NUM_HEADS, other=0.0)
        at = place[:, None] * HEAD_DIM + column[None, :]
        sums = tl.load(partial_sums + at, mask=live, other=0.0)
        highest = tl.maximum(top, log)
        weight = tl.math.exp2(log - highest)
        factor = tl.math.exp2(top - highest)
        total = total * factor + weight
        acc = acc * factor[:, None] + sums * weight[:, None]
        top = highest
    at = (row * NUM_HEADS + head)[:, None] * HEAD_DIM + column[None, :]
    tl.store(out + at, (acc / total[:, None]).to(out.dtype.element_ty), mask=live)


def tiles(dtype: torch.dtype, head_dim: int, hopper: bool = False) -> tuple[Tile, ...]:
    """The forms for a number format and head size, the one with the most lines first."""
    if hopper:
        return (Tile(128, 128, 4, 2, 1, hopper=True), *tiles(dtype, head_dim)[1:])
    if dtype == torch.float32:  # exact products run outside the matrix units
        return (Tile(16, 32, 8, 2, 2),)
    if head_dim <= 64:
        return Tile(128, 64, 8, 3, 2), Tile(64, 64, 4, 3, 4), Tile(16, 64, 4, 3, 6)
    if head_dim <= 128:
        return Tile(128, 64, 8, 2, 2, 128), Tile(64, 64, 4, 2, 2), Tile(16, 64, 4, 3, 3)
    return Tile(128, 32, 8, 3, 1), Tile(64, 32, 4, 2, 2), Tile(16, 32, 4, 3, 2)


_launch_extend = Launcher(_extend)
_launch_merge = Launcher(_merge)


def attend_items(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    items: torch.Tensor,
    tile: Tile,
    scale: float,
    window: int | None,
    out: torch.Tensor,
    partials: tuple[torch.Tensor, torch.Tensor],
) -> None:
    """Attention of all items, which are cut for `tile`.

    Args:
        q: `[T, num_heads, head_dim]`; a head's numbers lie side by side, the rest as it may.
        k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`, as `q`.
        slots: int32 or int64, those of all contexts.
        items: `[num_items, ITEM]` int32.
        scale: factor on the products.
        window: a token sees itself and the `window - 1` before it; None: all.
        out: `[T, num_heads, head_dim]` contiguous, gets what is final.
        partials: float32 `[num_partials, num_heads, head_dim]`, the results of items that are
            not, and `[num_partials, num_heads]`, base-2 logarithms of their weights' sums.
    """
    _launch_extend(
        *_arguments(q, k_cache, v_cache, slots, items, tile, scale, window, out, partials)
    )


def prepared_items(*arguments: Any) -> Prepared:
    """`attend_items`, to be called with caches like `k_cache` and `v_cache`."""
    return _launch_extend.prepared(_arguments(*arguments), (1, 2))


def _arguments(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    items: torch.Tensor,
    tile: Tile,
    scale: float,
    window: int | None,
    out: torch.Tensor,
    partials: tuple[torch.Tensor, torch.Tensor],
) -> Arguments:
    _, num_heads, head_dim = q.shape
    _, kv_heads, _ = k_cache.shape
    *q_strides, q_inner = q.stride()
    *k_strides, k_inner = k_cache.stride()
    *v_strides, v_inner = v_cache.stride()
    assert q_inner == k_inner == v_inner == 1, "heads must be contiguous"
    assert tile.lines * kv_heads >= num_heads, "a tile must hold one token of a key head"
    wide = is_wide(k_cache, v_cache)
    exact = q.dtype == torch.float32
    return (
        (items.shape[0] * kv_heads, 1),
        (q, k_cache, v_cache, slots, items, out, *partials),
        (scale * 1.4426950408889634, window or 0),
        (*q_strides, *k_strides, *v_strides),
        _form(tile, num_heads, kv_heads, head_dim, window is not None, wide, exact),
    )


@functools.cache
def _form(
    tile: Tile, heads: int, kv_heads: int, head_dim: int, windowed: bool, wide: bool, exact: bool
) -> Form:
    return Form(
        KV_HEADS=kv_heads,
        GROUP=heads // kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_D=_power(head_dim),
        BLOCK_M=tile.lines,
        BLOCK_N=tile.keys,
        WINDOWED=windowed,
        WIDE=wide,
        PRECISION="ieee" if exact else "tf32",
        num_warps=tile.warps,
        num_stages=tile.stages,
        **({} if tile.registers is None else {"maxnreg": tile.registers}),
    )


def merge_partials(
    partials: tuple[torch.Tensor, torch.Tensor], merges: torch.Tensor, out: torch.Tensor
) -> None:
    """Put the parts of tokens together by their log-sum-exp.

    Args:
        partials: as in `attend_items`.
        merges: `[num_merges, MERGE]` int32, a token each.
        out: `[T, num_heads, head_dim]` contiguous.
    """
    _launch_merge(*_merge_arguments(partials, merges, out))


def prepared_merge(
    partials: tuple[torch.Tensor, torch.Tensor], merges: torch.Tensor, out: torch.Tensor
) -> Prepared:
    """`merge_partials`, to be called as it is."""
    return _launch_merge.prepared(_merge_arguments(partials, merges, out), ())


def _merge_arguments(
    partials: tuple[torch.Tensor, torch.Tensor], merges: torch.Tensor, out: torch.Tensor
) -> Arguments:
    _, num_heads, head_dim = out.shape
    form, programs = _merge_form(num_heads, head_dim)
    return (merges.shape[0], programs), (*partials, merges, out), (), (), form


@functools.cache
def _merge_form(num_heads: int, head_dim: int) -> tuple[Form, int]:
    """The kernel for a model's heads, and the programs of a token."""
    heads = min(4, _power(num_heads, 1))
    form = Form(
        NUM_HEADS=num_heads,
        HEADS=heads,
        HEAD_DIM=head_dim,
        BLOCK_D=_power(head_dim),
        num_warps=1,
    )
    return form, -(-num_heads // heads)


def _power(number: int, least: int = 16) -> int:
    return max(least, 1 << (number - 1).bit_length())


def is_wide(k_cache: torch.Tensor, v_cache: torch.Tensor) -> bool:
    """Whether places in the caches need 64 bits."""
    # Slots lie one behind the other, so this is the place behind the last one.
    return max(k_cache.size(0) * k_cache.stride(0), v_cache.size(0) * v_cache.stride(0)) >= 1 << 31
