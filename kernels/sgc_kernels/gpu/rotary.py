"""Rotary turn, keys and values into their slots, and Qwen3's norm of queries and keys before that:
one kernel on a GPU.

A program takes one token and a few of its heads, whatever they are (queries, keys or values): both
halves of each head lie in registers, and the kind of head decides where the result goes.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.eight_bits import stored
from sgc_kernels.gpu.launcher import Arguments, Form, Launcher, Prepared

Table = tuple[torch.Tensor, torch.Tensor]

_NUMBERS = 1024  # of a program: few enough for many programs at batch 1


@triton.jit
def _normed(
    low: tl.tensor,
    high: tl.tensor,
    scale_low: tl.tensor,
    scale_high: tl.tensor,
    eps: tl.tensor,
    HALF: tl.constexpr,
) -> tl.tensor:
    """Heads `[HEADS, 2 * HALF]`, in two halves, over their root mean square; rounded as in the
    reference."""
    first, second = low.to(tl.float32), high.to(tl.float32)
    mean = (tl.sum(first * first, axis=1) + tl.sum(second * second, axis=1)) / (2 * HALF)
    factor = (1.0 / tl.sqrt(mean + eps))[:, None]
    first = (first * factor).to(low.dtype).to(tl.float32) * scale_low
    second = (second * factor).to(low.dtype).to(tl.float32) * scale_high
    return first.to(low.dtype), second.to(low.dtype)


@triton.jit
def _turn_and_store(
    qkv: tl.tensor,
    cos: tl.tensor,
    sin: tl.tensor,
    q_norm: tl.tensor,
    k_norm: tl.tensor,
    q_out: tl.tensor,
    k_cache: tl.tensor,
    v_cache: tl.tensor,
    slots: tl.tensor,
    eps: tl.tensor,
    token_stride: tl.tensor,
    head_stride: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    Q_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    HEADS: tl.constexpr,
    NORM: tl.constexpr,
) -> None:
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    column = tl.arange(0, BLOCK)
    within = column < HALF
    is_q = (head < Q_HEADS)[:, None]
    is_v = (head >= Q_HEADS + KV_HEADS)[:, None]
    inside = (head < Q_HEADS + 2 * KV_HEADS)[:, None] & within[None, :]

    place = qkv + token * token_stride + head[:, None] * head_stride + column[None, :]
    low = tl.load(place, mask=inside, other=0.0)
    high = tl.load(place + HALF, mask=inside, other=0.0)
    angle = token * (2 * HALF) + column
    cos_low = tl.load(cos + angle, mask=within, other=0.0).to(tl.float32)[None, :]
    cos_high = tl.load(cos + angle + HALF, mask=within, other=0.0).to(tl.float32)[None, :]
    sin_low = tl.load(sin + angle, mask=within, other=0.0).to(tl.float32)[None, :]
    sin_high = tl.load(sin + angle + HALF, mask=within, other=0.0).to(tl.float32)[None, :]
    slot = tl.load(slots + token).to(tl.int64)

    raw_low, raw_high = low, high
    if NORM:
        q_low = tl.load(q_norm + column, mask=within, other=0.0).to(tl.float32)[None, :]
        q_high = tl.load(q_norm + HALF + column, mask=within, other=0.0).to(tl.float32)[None, :]
        k_low = tl.load(k_norm + column, mask=within, other=0.0).to(tl.float32)[None, :]
        k_high = tl.load(k_norm + HALF + column, mask=within, other=0.0).to(tl.float32)[None, :]
        scale_low, scale_high = tl.where(is_q, q_low, k_low), tl.where(is_q, q_high, k_high)
        low, high = _normed(low, high, scale_low, scale_high, eps, HALF)
    first, second = low.to(tl.float32), high.to(tl.float32)
    # The sines of the first half are negative.
    turned_low = (first * cos_low + second * sin_low).to(raw_low.dtype)
    turned_high = (second * cos_high + first * sin_high).to(raw_low.dtype)

    to_q = q_out + (token * Q_HEADS + head[:, None]) * (2 * HALF) + column[None, :]
    tl.store(to_q, turned_low, mask=inside & is_q)
    tl.store(to_q + HALF, turned_high, mask=inside & is_q)
    is_k = (head >= Q_HEADS)[:, None] & (head < Q_HEADS + KV_HEADS)[:, None]
    to_k = k_cache + slot * k_stride + (head - Q_HEADS)[:, None] * (2 * HALF) + column[None, :]
    tl.store(to_k, stored(turned_low, k_cache), mask=inside & is_k)
    tl.store(to_k + HALF, stored(turned_high, k_cache), mask=inside & is_k)
    number = head - (Q_HEADS + KV_HEADS)
    to_v = v_cache + slot * v_stride + number[:, None] * (2 * HALF) + column[None, :]
    tl.store(to_v, stored(raw_low, v_cache), mask=inside & is_v)
    tl.store(to_v + HALF, stored(raw_high, v_cache), mask=inside & is_v)


_launch_turn = Launcher(_turn_and_store)


def turn_and_store(
    qkv: torch.Tensor,
    table: Table,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """As `sgc_kernels.kv_store.turn_and_store`."""
    return _launch(qkv, None, 0.0, table, k_cache, v_cache, slots)


def norm_turn_and_store(
    qkv: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    eps: float,
    table: Table,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """As `sgc_kernels.kv_store.norm_turn_and_store`."""
    return _launch(qkv, norms, eps, table, k_cache, v_cache, slots)


def prepared_turn_and_store(
    qkv: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
    eps: float,
    table: Table,
    caches: tuple[torch.Tensor, torch.Tensor],
    slots: torch.Tensor,
    q: torch.Tensor,
) -> Prepared:
    """`turn_and_store`, or `norm_turn_and_store` with `norms`, with the turned queries into `q`; to
    be called with keys and values like `caches`, and behind them norms like `norms`."""
    assert q.is_contiguous(), "heads lie behind each other"
    changing = (6, 7) if norms is None else (6, 7, 3, 4)
    return _launch_turn.prepared(_arguments(qkv, norms, eps, table, *caches, slots, q), changing)


def _launch(
    qkv: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
    eps: float,
    table: Table,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    tokens, heads, head_dim = qkv.shape
    shape = (tokens, heads - 2 * k_cache.shape[1], head_dim)
    q = torch.empty(shape, dtype=qkv.dtype, device=qkv.device)
    _launch_turn(*_arguments(qkv, norms, eps, table, k_cache, v_cache, slots, q))
    return q


def _arguments(
    qkv: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None,
    eps: float,
    table: Table,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    q: torch.Tensor,
) -> Arguments:
    tokens, heads, head_dim = qkv.shape
    _, q_heads, _ = q.shape
    (token_stride, head_stride, inner), k_strides, v_strides = (
        tensor.stride() for tensor in (qkv, k_cache, v_cache)
    )
    together = (head_dim, 1)
    assert k_strides[1:] == v_strides[1:] == together, "the heads of a slot lie beside each other"
    assert inner == 1, "heads lie in one piece"
    assert head_dim % 2 == 0, "heads have two halves"
    cos, sin = table
    assert cos.numel() == sin.numel() == tokens * head_dim, "an angle a token and column"
    q_norm, k_norm = (None, None) if norms is None else norms
    form, programs = _form(q_heads, (heads - q_heads) // 2, head_dim, norms is not None)
    tensors = (
        qkv,
        cos.contiguous(),
        sin.contiguous(),
        q_norm,
        k_norm,
        q,
        k_cache,
        v_cache,
        slots,
    )
    strides = (token_stride, head_stride, k_strides[0], v_strides[0])
    return (tokens, programs), tensors, (eps,), strides, form


@functools.cache
def _form(q_heads: int, kv_heads: int, head_dim: int, norm: bool) -> tuple[Form, int]:
    """The kernel for a model's heads, and the programs of a token."""
    block = triton.next_power_of_2(head_dim // 2)
    at_once = max(1, _NUMBERS // (2 * block))
    form = Form(
        Q_HEADS=q_heads,
        KV_HEADS=kv_heads,
        HALF=head_dim // 2,
        BLOCK=block,
        HEADS=at_once,
        NORM=norm,
        num_warps=4,
    )
    return form, -(-(q_heads + 2 * kv_heads) // at_once)
