"""Writing new keys and values into their slots of the pool, in plain torch."""

from __future__ import annotations

import torch

from sgc_kernels.norm import rms_norm
from sgc_kernels.rotary import apply_rotary

EIGHT_BITS = torch.float8_e4m3fn
LARGEST = 448.0  # number of that format


def store_kv(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> None:
    """Put token t's key and value into slot `slots[t]`, in place.

    Args:
        k, v: `[T, num_kv_heads, head_dim]`.
        k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`.
        slots: `[T]` int64, all different.

    Caches in 8 bits (e4m3) get what is nearest; beyond 448, which is the largest number there, 448.
    """
    for cache, new in ((k_cache, k), (v_cache, v)):
        if cache.dtype == EIGHT_BITS:
            bits = in_eight_bits(new).view(torch.uint8)
            cache.view(torch.uint8).index_copy_(0, slots, bits)
        else:
            cache.index_copy_(0, slots, new)


def in_eight_bits(x: torch.Tensor) -> torch.Tensor:
    """`x` in e4m3; NaN stays NaN."""
    return x.float().clamp(-LARGEST, LARGEST).to(EIGHT_BITS)


def turn_and_store(
    qkv: torch.Tensor,
    table: tuple[torch.Tensor, torch.Tensor],
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """Turn queries and keys by a `rotary_table`, store keys and values, give the queries.

    Args:
        qkv: `[T, q_heads + 2 * kv_heads, head_dim]`: queries, keys, values.
        k_cache, v_cache, slots: as in `store_kv`.

    Returns:
        `[T, q_heads, head_dim]`.
    """
    kv_heads = k_cache.shape[1]
    turned = apply_rotary(qkv[:, :-kv_heads], table)
    store_kv(turned[:, -kv_heads:], qkv[:, -kv_heads:], k_cache, v_cache, slots)
    return turned[:, :-kv_heads]


def norm_turn_and_store(
    qkv: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    eps: float,
    table: tuple[torch.Tensor, torch.Tensor],
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """`turn_and_store` after an RMS norm of each query and key head.

    Args:
        norms: weights for queries and for keys, `[head_dim]`.
        eps: see `rms_norm`.
    """
    kv_heads = k_cache.shape[1]
    q = rms_norm(qkv[:, : -2 * kv_heads], norms[0], eps)
    k = rms_norm(qkv[:, -2 * kv_heads : -kv_heads], norms[1], eps)
    store_kv(apply_rotary(k, table), qkv[:, -kv_heads:], k_cache, v_cache, slots)
    return apply_rotary(q, table)
