"""The warpgroup that gathers keys and values into a ring of blocks, for `extend_hopper.py`."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier


@gluon.jit
def gather(
    keys: gl.tensor,
    values: gl.tensor,
    full_keys: gl.tensor,
    full_values: gl.tensor,
    free_keys: gl.tensor,
    free_values: gl.tensor,
    k_cache: gl.tensor,
    v_cache: gl.tensor,
    slots: gl.tensor,
    start: gl.tensor,
    end: gl.tensor,
    k_stride: gl.tensor,
    v_stride: gl.tensor,
    DIM: gl.constexpr,
    BLOCK: gl.constexpr,
    STAGES: gl.constexpr,
    WIDE: gl.constexpr,
) -> None:
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // DIM, DIM // 8], [4, 1], [1, 0])
    key = gl.arange(0, BLOCK, layout=gl.SliceLayout(1, layout))
    column = gl.arange(0, DIM, layout=gl.SliceLayout(0, layout))
    # The next block's slots are read a block ahead, so that its keys need not wait for them.
    here = gl.load(slots + gl.minimum(start + key, end - 1))
    stage, turn = 0, 1
    for at in range(start, end, BLOCK):
        place = here.to(gl.int64) if WIDE else here.to(gl.int32)
        k_at = k_cache + place[:, None] * k_stride + column[None, :]
        mbarrier.wait(free_keys.index(stage), turn)
        async_copy.async_copy_global_to_shared(keys.index(stage), k_at)
        async_copy.mbarrier_arrive(full_keys.index(stage), increment_count=False)
        v_at = v_cache + place[:, None] * v_stride + column[None, :]
        here = gl.load(slots + gl.minimum(at + BLOCK + key, end - 1))
        mbarrier.wait(free_values.index(stage), turn)
        async_copy.async_copy_global_to_shared(values.index(stage), v_at)
        async_copy.mbarrier_arrive(full_values.index(stage), increment_count=False)
        stage, turn = next_stage(stage, turn, STAGES)
    async_copy.commit_group()
    async_copy.wait_group(0)


@gluon.jit
def next_stage(stage: gl.tensor, turn: gl.tensor, STAGES: gl.constexpr) -> gl.tensor:
    stage += 1
    if stage == STAGES:
        stage = 0
        turn ^= 1
    return stage, turn
