"""What one step of a model computes: a ragged batch of new tokens over cached ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch


class KVTensors(Protocol):
    """Keys and values of all layers; each tensor is `[num_slots, num_kv_heads, head_dim]`."""

    k: Sequence[torch.Tensor]
    v: Sequence[torch.Tensor]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """B sequences with T new tokens in all, packed without padding.

    Sequence b has the new tokens `qo_indptr[b]:qo_indptr[b+1]`; its whole context, new tokens
    included, lies in the slots `kv_slots[kv_indptr[b]:kv_indptr[b+1]]` in order, or up to
    `kv_ends[b]` where that is given. New tokens are the last ones of their sequence. For `grows`
    and `shared` see `AttentionMeta`.
    """

    input_ids: torch.Tensor  # [T] int64
    positions: torch.Tensor  # [T] int64
    out_slots: torch.Tensor  # [T] int64, where the keys and values of the new tokens go
    qo_indptr: torch.Tensor  # [B+1] int32, on the CPU
    kv_indptr: torch.Tensor  # [B+1] int32, on the CPU
    kv_slots: torch.Tensor  # [sum of context lengths] int64 or int32
    logit_rows: torch.Tensor  # [L] int64, rows of T whose logits are wanted
    kv_ends: torch.Tensor | None = None  # [B] int32, on the CPU
    grows: object | None = None
    shared: torch.Tensor | None = None  # [B] int32, on the CPU
