"""The extend kernel for Hopper GPUs, in Gluon: one warpgroup gathers keys and values, two multiply.

Scores of the next block and the sum over this block's values are in flight while a warpgroup
works on the softmax (the order of FlashAttention-3: Shah et al., 2024). Blocks pass from the
gathering warps to the others through a ring in shared memory, with a barrier for each half of its
stages; a stage is free again when both have read it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from sgc_kernels.gpu.attention.extend import Tile, is_wide
from sgc_kernels.gpu.attention.hopper_ring import gather, next_stage
from sgc_kernels.gpu.attention.parts import LOG2_E
from sgc_kernels.gpu.launcher import Arguments, Form, Launcher, Prepared

_DTYPES = (torch.bfloat16, torch.float16)
_HEAD_DIMS = (64, 128)
# Registers of a thread: 65,536 a multiprocessor, for two warpgroups that multiply and one that
# gathers; with fewer than 56 the addresses of 128 keys do not fit.
_MULTIPLY, _GATHER = 224, 56
_ALL = 168  # what the kernel is compiled with before it divides them
# A tile's rows are two halves, one for each warpgroup that multiplies.
_HALF = gl.constexpr(64)
_NOTHING = gl.constexpr(-1.0e30)  # below every score, and finite: differences of it are no NaN


@gluon.jit
def _softmax(
    scores: gl.tensor,
    top: gl.tensor,
    at: gl.tensor,
    end: gl.tensor,
    position: gl.tensor,
    scale: gl.tensor,
    window: gl.tensor,
    MASKED: gl.constexpr,
    WINDOWED: gl.constexpr,
    BLOCK: gl.constexpr,
    LAYOUT: gl.constexpr,
) -> gl.tensor:
    """Weights, the new maximum, and the factor on what was summed below the old one."""
    if MASKED:
        seen = at + gl.arange(0, BLOCK, layout=gl.SliceLayout(0, LAYOUT))
        visible = (seen[None, :] <= position[:, None]) & (seen[None, :] < end)
        if WINDOWED:
            visible = visible & (seen[None, :] > position[:, None] - window)
        scores = gl.where(visible, scores, float("-inf"))
    highest = gl.maximum(top, gl.max(scores, axis=1) * scale)
    weights = gl.exp2(scores * scale - highest[:, None])
    return weights, highest, gl.exp2(top - highest)


@gluon.jit
def _walk(
    acc: gl.tensor,
    top: gl.tensor,
    total: gl.tensor,
    weights: gl.tensor,
    stage: gl.tensor,
    turn: gl.tensor,
    first: gl.tensor,
    last: gl.tensor,
    queries: gl.tensor,
    keys: gl.tensor,
    values: gl.tensor,
    full_keys: gl.tensor,
    full_values: gl.tensor,
    free_keys: gl.tensor,
    free_values: gl.tensor,
    end: gl.tensor,
    position: gl.tensor,
    scale: gl.tensor,
    window: gl.tensor,
    MASKED: gl.constexpr,
    WINDOWED: gl.constexpr,
    DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    STAGES: gl.constexpr,
    SCORES: gl.constexpr,
    SUMS: gl.constexpr,
) -> gl.tensor:
    """Weights of the blocks `first:last`, each while the values of the one before are summed."""
    for at in range(first, last, BLOCK):
        before, before_turn = stage, turn
        stage, turn = next_stage(stage, turn, STAGES)
        mbarrier.wait(full_keys.index(stage), turn)
        fence_async_shared()
        none = gl.zeros([_HALF, BLOCK], gl.float32, layout=SCORES)
        block = keys.index(stage).permute((1, 0))
        scores = warpgroup_mma(queries, block, none, use_acc=False, is_async=True)
        mbarrier.wait(full_values.index(before), before_turn)
        fence_async_shared()
        acc = warpgroup_mma(weights, values.index(before), acc, is_async=True)
        scores = warpgroup_mma_wait(1, deps=[scores])
        gl.thread_barrier()
        mbarrier.arrive(free_keys.index(stage), count=1)
        exact, top, factor = _softmax(
            scores, top, at, end, position, scale, window, MASKED, WINDOWED, BLOCK, SCORES
        )
        total = total * factor + gl.sum(exact, axis=1)
        acc = warpgroup_mma_wait(0, deps=[acc])
        gl.thread_barrier()
        mbarrier.arrive(free_values.index(before), count=1)
        acc = acc * gl.convert_layout(factor, gl.SliceLayout(1, SUMS))[:, None]
        weights = gl.convert_layout(exact.to(keys.dtype), gl.DotOperandLayout(0, SUMS, 2))
    return acc, top, total, weights, stage, turn


@gluon.jit
def _multiply(
    q: gl.tensor,
    queries: gl.tensor,
    keys: gl.tensor,
    values: gl.tensor,
    full_keys: gl.tensor,
    full_values: gl.tensor,
    free_keys: gl.tensor,
    free_values: gl.tensor,
    out: gl.tensor,
    partial_sums: gl.tensor,
    partial_logs: gl.tensor,
    row: gl.tensor,
    tokens: gl.tensor,
    start: gl.tensor,
    end: gl.tensor,
    first_position: gl.tensor,
    partial: gl.tensor,
    kv_head: gl.tensor,
    scale: gl.tensor,
    window: gl.tensor,
    q_stride: gl.tensor,
    q_head_stride: gl.tensor,
    NUMBER: gl.constexpr,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    WINDOWED: gl.constexpr,
    DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    STAGES: gl.constexpr,
) -> None:
    """Attention of one half of the tile's rows."""
    SCORES: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK, 16])
    SUMS: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, DIM, 16])
    LOAD: gl.constexpr = gl.BlockedLayout([1, 8], [256 // DIM, DIM // 8], [4, 1], [1, 0])
    line = NUMBER * _HALF + gl.arange(0, _HALF, layout=gl.SliceLayout(1, LOAD))
    column = gl.arange(0, DIM, layout=gl.SliceLayout(0, LOAD))
    token, head = line // GROUP, kv_head * GROUP + line % GROUP
    q_at = q + token[:, None] * q_stride + head[:, None] * q_head_stride + column[None, :]
    queries.store(gl.load(q_at, mask=(token < tokens)[:, None], other=0.0))
    fence_async_shared()
    gl.thread_barrier()

    line = NUMBER * _HALF + gl.arange(0, _HALF, layout=gl.SliceLayout(1, SCORES))
    position = first_position + line // GROUP
    acc = gl.zeros([_HALF, DIM], gl.float32, layout=SUMS)
    top = gl.full([_HALF], _NOTHING, gl.float32, layout=gl.SliceLayout(1, SCORES))
    stage, turn = 0, 0
    mbarrier.wait(full_keys.index(0), 0)
    fence_async_shared()
    none = gl.zeros([_HALF, BLOCK], gl.float32, layout=SCORES)
    block = keys.index(0).permute((1, 0))
    scores = warpgroup_mma(queries, block, none, use_acc=False, is_async=True)
    scores = warpgroup_mma_wait(0, deps=[scores])
    gl.thread_barrier()
    mbarrier.arrive(free_keys.index(0), count=1)
    exact, top, _ = _softmax(
        scores, top, start, end, position, scale, window, True, WINDOWED, BLOCK, SCORES
    )
    total = gl.sum(exact, axis=1)
    weights = gl.convert_layout(exact.to(keys.dtype), gl.DotOperandLayout(0, SUMS, 2))
    # The keys up to the first token are seen by every token of the tile.
    if WINDOWED:
        masked = start + BLOCK
    else:
        whole = gl.maximum(gl.minimum(first_position + 1, end) - start, BLOCK)
        masked = start + whole // BLOCK * BLOCK
        acc, top, total, weights, stage, turn = _walk(
            acc, top, total, weights, stage, turn, start + BLOCK, masked, queries, keys, values,
            full_keys, full_values, free_keys, free_values, end, position, scale, window,
            False, False, DIM, BLOCK, STAGES, SCORES, SUMS,
        )  # fmt: skip
    acc, top, total, weights, stage, turn = _walk(
        acc, top, total, weights, stage, turn, masked, end, queries, keys, values,
        full_keys, full_values, free_keys, free_values, end, position, scale, window,
        True, WINDOWED, DIM, BLOCK, STAGES, SCORES, SUMS,
    )  # fmt: skip
    mbarrier.wait(full_values.index(stage), turn)
    fence_async_shared()
    acc = warpgroup_mma(weights, values.index(stage), acc, is_async=True)
    acc = warpgroup_mma_wait(0, deps=[acc])

    top = gl.convert_layout(top, gl.SliceLayout(1, SUMS))
    total = gl.convert_layout(total, gl.SliceLayout(1, SUMS))
    _store(
        acc, top, total, out, partial_sums, partial_logs, row, tokens, partial, kv_head,
        NUMBER, KV_HEADS, GROUP, DIM, SUMS,
    )  # fmt: skip


@gluon.jit
def _store(
    acc: gl.tensor,
    top: gl.tensor,
    total: gl.tensor,
    out: gl.tensor,
    partial_sums: gl.tensor,
    partial_logs: gl.tensor,
    row: gl.tensor,
    tokens: gl.tensor,
    partial: gl.tensor,
    kv_head: gl.tensor,
    NUMBER: gl.constexpr,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    DIM: gl.constexpr,
    SUMS: gl.constexpr,
) -> None:
    line = NUMBER * _HALF + gl.arange(0, _HALF, layout=gl.SliceLayout(1, SUMS))
    column = gl.arange(0, DIM, layout=gl.SliceLayout(0, SUMS))
    token, head = line // GROUP, kv_head * GROUP + line % GROUP
    live = (token < tokens)[:, None]
    sums = gl.where(total > 0, total, 1.0)
    result = acc / sums[:, None]
    heads: gl.constexpr = KV_HEADS * GROUP
    if partial < 0:
        at = ((row + token) * heads + head)[:, None] * DIM + column[None, :]
        gl.store(out + at, result.to(out.dtype.element_ty), mask=live)
    else:
        place = (partial + token).to(gl.int64) * heads + head
        gl.store(partial_sums + place[:, None] * DIM + column[None, :], result, mask=live)
        logs = gl.where(total > 0, top + gl.log2(sums), float("-inf"))
        gl.store(partial_logs + place, logs, mask=token < tokens)


@gluon.jit(do_not_specialize=["window"])
def _extend(
    q: gl.tensor,
    k_cache: gl.tensor,
    v_cache: gl.tensor,
    slots: gl.tensor,
    items: gl.tensor,
    out: gl.tensor,
    partial_sums: gl.tensor,
    partial_logs: gl.tensor,
    scale: gl.tensor,
    window: gl.tensor,
    q_stride: gl.tensor,
    q_head_stride: gl.tensor,
    k_stride: gl.tensor,
    k_head_stride: gl.tensor,
    v_stride: gl.tensor,
    v_head_stride: gl.tensor,
    KV_HEADS: gl.constexpr,
    GROUP: gl.constexpr,
    WINDOWED: gl.constexpr,
    WIDE: gl.constexpr,
    DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    STAGES: gl.constexpr,
    MULTIPLY: gl.constexpr,
    GATHER: gl.constexpr,
) -> None:
    program = gl.program_id(0)
    kv_head = program % KV_HEADS
    item = items + program // KV_HEADS * 8
    row, tokens = gl.load(item).to(gl.int64), gl.load(item + 1)
    slots += gl.load(item + 2)
    start, end = gl.load(item + 3), gl.load(item + 4)
    position, partial = gl.load(item + 5), gl.load(item + 6)
    q += row * q_stride
    k_cache += kv_head * k_head_stride
    v_cache += kv_head * v_head_stride

    kind: gl.constexpr = k_cache.dtype.element_ty
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK, DIM], kind)
    HALF: gl.constexpr = gl.NVMMASharedLayout.get_default_for([_HALF, DIM], kind)
    BARRIER: gl.constexpr = mbarrier.MBarrierLayout()
    queries = gl.allocate_shared_memory(kind, [2, _HALF, DIM], HALF)
    keys = gl.allocate_shared_memory(kind, [STAGES, BLOCK, DIM], LAYOUT)
    values = gl.allocate_shared_memory(kind, [STAGES, BLOCK, DIM], LAYOUT)
    full_keys = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    full_values = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    free_keys = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    free_values = gl.allocate_shared_memory(gl.int64, [STAGES, 1], BARRIER)
    for stage in gl.static_range(STAGES):
        mbarrier.init(full_keys.index(stage), count=128)  # every gathering thread
        mbarrier.init(full_values.index(stage), count=128)
        mbarrier.init(free_keys.index(stage), count=2)  # both warpgroups that multiply
        mbarrier.init(free_values.index(stage), count=2)
    gl.thread_barrier()
    gl.warp_specialize(
        [
            (_multiply, (
                q, queries.index(0), keys, values, full_keys, full_values, free_keys, free_values,
                out, partial_sums, partial_logs, row, tokens, start, end, position, partial,
                kv_head, scale, window, q_stride, q_head_stride,
                0, KV_HEADS, GROUP, WINDOWED, DIM, BLOCK, STAGES,
            )),
            (_multiply, (
                q, queries.index(1), keys, values, full_keys, full_values, free_keys, free_values,
                out, partial_sums, partial_logs, row, tokens, start, end, position, partial,
                kv_head, scale, window, q_stride, q_head_stride,
                1, KV_HEADS, GROUP, WINDOWED, DIM, BLOCK, STAGES,
            )),
            (gather, (
                keys, values, full_keys, full_values, free_keys, free_values,
                k_cache, v_cache, slots, start, end, k_stride, v_stride, DIM, BLOCK, STAGES, WIDE,
            )),
        ],
        [4, 4],
        [MULTIPLY, GATHER],
    )  # fmt: skip


_launch = Launcher(_extend)


@functools.cache
def can_attend(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """Whether these kernels run on this device and for this model."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] != 9:
        return False
    return dtype in _DTYPES and head_dim in _HEAD_DIMS


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
    """As `extend.attend_items`, for items of tiles of 128 lines, none of them empty."""
    _launch(*_arguments(q, k_cache, v_cache, slots, items, tile, scale, window, out, partials))


def prepared_items(*arguments: Any) -> Prepared:
    """As `extend.prepared_items`."""
    return _launch.prepared(_arguments(*arguments), (1, 2))


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
    num_heads, kv_heads, head_dim = q.shape[1], k_cache.shape[1], q.shape[2]
    assert tile.lines == 2 * _HALF.value, "a tile has 128 lines"
    return (
        (items.shape[0] * kv_heads, 1),
        (q, k_cache, v_cache, slots, items, out, *partials),
        (scale * LOG2_E, window or 0),
        (*q.stride()[:2], *k_cache.stride()[:2], *v_cache.stride()[:2]),
        _form(tile, num_heads, kv_heads, head_dim, window is not None, is_wide(k_cache, v_cache)),
    )


@functools.cache
def _form(
    tile: Tile, num_heads: int, kv_heads: int, head_dim: int, windowed: bool, wide: bool
) -> Form:
    return Form(
        KV_HEADS=kv_heads,
        GROUP=num_heads // kv_heads,
        WINDOWED=windowed,
        WIDE=wide,
        DIM=head_dim,
        BLOCK=tile.keys,
        STAGES=tile.stages,
        MULTIPLY=_MULTIPLY,
        GATHER=_GATHER,
        num_warps=4,
        maxnreg=_ALL,
    )
