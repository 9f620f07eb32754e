"""Writing new keys and values into their slots of the pool, in plain torch."""

from __future__ import annotations

import torch


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
    """
    k_cache.index_copy_(0, slots, k)
    v_cache.index_copy_(0, slots, v)
