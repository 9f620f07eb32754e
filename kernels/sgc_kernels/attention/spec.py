"""The contract of attention over paged keys and values: one ragged call for extend and decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch


@dataclass(frozen=True, slots=True)
class AttentionMeta:
    """Which tokens of a step may look at which slots; B sequences, T new tokens.

    The queries of sequence b are the rows `qo_indptr[b]:qo_indptr[b+1]`; the keys and values of
    its whole context, new tokens included, lie in the slots
    `kv_slots[kv_indptr[b]:kv_indptr[b+1]]` in order, or in `kv_slots[kv_indptr[b]:kv_ends[b]]`
    where that is given. The queries belong to the last tokens of the context. A sequence may have
    no queries; then its slots are not read.

    Steps with the same `grows` have the same sequences in the same order, each with one query and
    with the slots of the last such step and one more behind them.

    Where `shared` is given, the first `shared[b]` slots of sequence b are those of sequence b - 1
    too, and backends for GPUs read them once a step for decode rows that stand side by side.
    """

    qo_indptr: torch.Tensor  # [B+1] int32, CPU
    kv_indptr: torch.Tensor  # [B+1] int32, CPU
    kv_slots: torch.Tensor  # [sum of context lengths] int64, device of the pool
    kv_ends: torch.Tensor | None = None  # [B] int32, CPU
    grows: object | None = None
    shared: torch.Tensor | None = None  # [B] int32, CPU; the first is 0

    @property
    def ends(self) -> torch.Tensor:
        """`[B]` int32: the end of each sequence's slots."""
        return self.kv_indptr[1:] if self.kv_ends is None else self.kv_ends


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """What is equal in all layers of a model."""

    num_heads: int
    num_kv_heads: int  # divides num_heads; query head h reads kv head h // (num_heads/num_kv_heads)
    head_dim: int
    scale: float  # factor on the products of queries and keys
    dtype: torch.dtype
    kv_dtype: torch.dtype | None = None  # of keys and values in the cache; None: `dtype`

    @property
    def kept(self) -> torch.dtype:
        """The number format of keys and values in the cache."""
        return self.kv_dtype or self.dtype


class AttentionPlan(Protocol):
    """What one step needs in every layer, prepared once. Valid for that step only."""

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        """Causal attention of one layer; the new keys and values are in the cache already.

        Args:
            q: `[T, num_heads, head_dim]`.
            k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`. Slots that the step does not
                name are never read: they may hold anything.
            window: a token sees itself and the `window - 1` tokens before it; None: all.

        Returns:
            `[T, num_heads, head_dim]`.
        """
        ...


@runtime_checkable
class PreparedPlan(AttentionPlan, Protocol):
    """A plan whose launches can be prepared once for all layers of a window."""

    def prepared(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None,
        out: torch.Tensor,
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """`run` over the queries that `q` holds by then, into `out`, `[T, num_heads, head_dim]`
        contiguous; to be called with caches like `k_cache` and `v_cache`."""
        ...


class AttentionBackend(Protocol):
    """One way to compute attention."""

    name: str

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        """Prepare a step. Everything that does not depend on the layer happens here."""
        ...
