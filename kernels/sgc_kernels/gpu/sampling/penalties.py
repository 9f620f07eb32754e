"""Penalties and bias on the logits of a few tokens of each row, in place, and taking them back."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.sampling.params import Adjustments

_TINY = tl.constexpr(1e-37)  # factors are kept between these two, far from the ends of float32,
_HUGE = tl.constexpr(1e37)  # and so is what they give
_BLOCK = 1024


@triton.jit
def _adjusted(
    x: tl.tensor,
    seen: tl.tensor,
    count: tl.tensor,
    bias: tl.tensor,
    repetition: tl.tensor,
    frequency: tl.tensor,
    presence: tl.tensor,
) -> tl.tensor:
    repeated = tl.where(x > 0, x / repetition, x * repetition)
    repeated = tl.where(repeated > _HUGE, _HUGE, tl.where(repeated < -_HUGE, -_HUGE, repeated))
    x = tl.where(seen != 0, tl.where(repetition == 1.0, x, repeated), x)
    x = tl.where(count != 0, x + (-frequency * count.to(tl.float32) - presence), x)
    return tl.where(bias == float("-inf"), bias, x + bias)


@triton.jit
def _adjust(
    logits: tl.tensor,
    stride: tl.tensor,
    starts: tl.tensor,
    ids: tl.tensor,
    seen_of: tl.tensor,
    counts: tl.tensor,
    biases: tl.tensor,
    repetition_of: tl.tensor,
    frequency_of: tl.tensor,
    presence_of: tl.tensor,
    before: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    first, end = tl.load(starts + row), tl.load(starts + row + 1)
    repetition = tl.minimum(tl.maximum(tl.load(repetition_of + row), _TINY), _HUGE)
    frequency, presence = tl.load(frequency_of + row), tl.load(presence_of + row)
    while first < end:
        entry = first + tl.arange(0, BLOCK)
        there = entry < end
        at = logits + row.to(tl.int64) * stride + tl.load(ids + entry, mask=there, other=0)
        x = tl.load(at, mask=there, other=0.0).to(tl.float32)
        seen = tl.load(seen_of + entry, mask=there, other=0)
        count = tl.load(counts + entry, mask=there, other=0)
        bias = tl.load(biases + entry, mask=there, other=0.0)
        tl.store(before + entry, x, mask=there)
        x = _adjusted(x, seen, count, bias, repetition, frequency, presence)
        tl.store(at, x.to(logits.dtype.element_ty), mask=there)
        first += BLOCK


@triton.jit
def _restore(
    logits: tl.tensor,
    stride: tl.tensor,
    starts: tl.tensor,
    ids: tl.tensor,
    before: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    first, end = tl.load(starts + row), tl.load(starts + row + 1)
    while first < end:
        entry = first + tl.arange(0, BLOCK)
        there = entry < end
        at = logits + row.to(tl.int64) * stride + tl.load(ids + entry, mask=there, other=0)
        x = tl.load(before + entry, mask=there, other=0.0)
        tl.store(at, x.to(logits.dtype.element_ty), mask=there)
        first += BLOCK


def adjust(logits: torch.Tensor, changes: Adjustments) -> None:
    """Change `logits` (`[rows, vocab]`) in place, in this order:

    1. repetition penalty r: of each token seen, x / r if x > 0, else x * r, kept finite;
    2. frequency and presence penalty: x - frequency * count - presence, for sampled tokens;
    3. bias.

    Log-probabilities of the model must be taken before, or after `restore`. Logits narrower than
    float32 are rounded once.
    """
    c = changes
    _adjust[len(logits),](
        logits, logits.stride(0), c.starts, c.ids, c.seen, c.counts, c.bias,
        c.repetition, c.frequency, c.presence, c.before, BLOCK=_BLOCK,
    )  # fmt: skip


def restore(logits: torch.Tensor, changes: Adjustments) -> None:
    """Undo `adjust`."""
    c = changes
    _restore[len(logits),](logits, logits.stride(0), c.starts, c.ids, c.before, BLOCK=_BLOCK)
