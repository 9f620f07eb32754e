"""What every step on a GPU begins with: its tensors out of the host's numbers, slots into the slot
table, and the rotary table, one launch each."""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.launcher import Form, Launcher
from sgc_kernels.step import NUMBERS, StepTensors

_TOKENS = 128  # of a program
_SLOTS = 1024


@triton.jit(do_not_specialize=["tokens"])
def _prepare(
    numbers: tl.tensor,
    table: tl.tensor,
    last_ids: tl.tensor,
    ids: tl.tensor,
    positions: tl.tensor,
    out_slots: tl.tensor,
    starts: tl.tensor,
    lens: tl.tensor,
    tokens: tl.tensor,
    CONTEXT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < tokens
    row = tl.load(numbers + at * 4, mask=inside, other=0).to(tl.int64)
    slot = tl.load(numbers + at * 4 + 1, mask=inside, other=0)
    position = tl.load(numbers + at * 4 + 2, mask=inside, other=0)
    token = tl.load(numbers + at * 4 + 3, mask=inside, other=0)
    last = tl.load(last_ids + row, mask=inside & (token < 0), other=0)
    # Where nothing could be chosen, any id will do: the row's request has failed.
    last = tl.maximum(last, 0)
    tl.store(ids + at, tl.where(token < 0, last, token.to(tl.int64)), mask=inside)
    tl.store(positions + at, position.to(tl.int64), mask=inside)
    tl.store(out_slots + at, slot.to(tl.int64), mask=inside)
    tl.store(starts + at, row * CONTEXT, mask=inside)
    tl.store(lens + at, position + 1, mask=inside)
    tl.store(table + row * CONTEXT + position, slot, mask=inside)


_launch_prepare = Launcher(_prepare)


def prepare_step(
    numbers: torch.Tensor, table: torch.Tensor, last_ids: torch.Tensor, out: StepTensors
) -> None:
    """As `sgc_kernels.step.prepare_step`."""
    assert numbers.dtype == table.dtype == torch.int32, "numbers and slots are int32"
    assert numbers.is_contiguous(), "numbers of a token lie beside each other"
    assert table.is_contiguous(), "rows of the table lie behind each other"
    tokens = len(numbers)
    assert numbers.shape[1] == NUMBERS
    assert tokens == len(out.ids), "an entry a token"
    tensors = (
        numbers,
        table,
        last_ids,
        out.ids,
        out.positions,
        out.out_slots,
        out.starts,
        out.lens,
    )
    form = _prepare_form(table.shape[1])
    _launch_prepare((-(-tokens // _TOKENS), 1), tensors, (tokens,), (), form)


@functools.cache
def _prepare_form(context: int) -> Form:
    return Form(CONTEXT=context, BLOCK=_TOKENS, num_warps=4)


@triton.jit
def _fill(
    runs: tl.tensor,
    slots: tl.tensor,
    table: tl.tensor,
    CONTEXT: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    run = runs + tl.program_id(0) * 4
    row = tl.load(run).to(tl.int64)
    position = tl.load(run + 1)
    first = tl.load(run + 2)
    length = tl.load(run + 3)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(slots + first + at, mask=at < length, other=0)
    tl.store(table + row * CONTEXT + position + at, slot, mask=at < length)


_launch_fill = Launcher(_fill)


def fill_table(runs: torch.Tensor, slots: torch.Tensor, table: torch.Tensor, longest: int) -> None:
    """As `sgc_kernels.step.fill_table`; `longest` is the length of the longest run."""
    assert runs.dtype == slots.dtype == table.dtype == torch.int32
    assert runs.is_contiguous()
    assert table.is_contiguous()
    grid, form = (len(runs), -(-longest // _SLOTS)), _fill_form(table.shape[1])
    _launch_fill(grid, (runs, slots, table), (), (), form)


@functools.cache
def _fill_form(context: int) -> Form:
    return Form(CONTEXT=context, BLOCK=_SLOTS, num_warps=4)


@triton.jit
def _rotary(
    positions: tl.tensor,
    inv_freq: tl.tensor,
    cos_out: tl.tensor,
    sin_out: tl.tensor,
    scale: tl.tensor,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    within = column < HALF
    position = tl.load(positions + token).to(tl.float32)
    angle = position * tl.load(inv_freq + column, mask=within, other=0.0)
    cos = (tl.cos(angle) * scale).to(cos_out.dtype.element_ty)
    sin = (tl.sin(angle) * scale).to(sin_out.dtype.element_ty)
    place = token * (2 * HALF) + column
    tl.store(cos_out + place, cos, mask=within)
    tl.store(cos_out + place + HALF, cos, mask=within)
    tl.store(sin_out + place, -sin, mask=within)
    tl.store(sin_out + place + HALF, sin, mask=within)


_launch_rotary = Launcher(_rotary)


def rotary_table(
    positions: torch.Tensor, inv_freq: torch.Tensor, scale: float, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `sgc_kernels.rotary.rotary_table`."""
    assert inv_freq.is_contiguous()
    half = len(inv_freq)
    shape = (len(positions), 1, 2 * half)
    cos = torch.empty(shape, dtype=dtype, device=positions.device)
    sin = torch.empty_like(cos)
    tensors = (positions, inv_freq, cos, sin)
    _launch_rotary((len(positions), 1), tensors, (float(scale),), (), _rotary_form(half))
    return cos, sin


@functools.cache
def _rotary_form(half: int) -> Form:
    return Form(HALF=half, BLOCK=triton.next_power_of_2(half), num_warps=1)
