"""Random ragged steps over shared slots, and attention by its formula in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st

from sgc_kernels.attention.spec import AttentionBackend, AttentionMeta, AttentionShape


@dataclass(frozen=True)
class Sequence:
    """One sequence of a step; it begins with `shared` slots of an earlier one's context."""

    queries: int
    own: int  # further tokens before the queries
    parent: int  # number of an earlier sequence, or -1
    shared: int  # cut to what the parent has before its queries


@dataclass(frozen=True)
class TreeStep:
    sequences: tuple[Sequence, ...]
    window: int | None
    seed: int


@st.composite
def tree_steps(draw: st.DrawFn, longest: int = 200) -> TreeStep:
    """Up to 12 sequences whose contexts form trees of several levels."""
    queries = st.sampled_from((0, 1, 1, 1, 1, 2, 3, 5, 16, 17, 40))
    sequences = []
    for number in range(draw(st.integers(1, 12))):
        sequences.append(
            Sequence(
                queries=draw(queries),
                own=draw(st.integers(0, longest)),
                parent=draw(st.integers(-1, number - 1)),
                shared=draw(st.integers(0, 2 * longest)),
            )
        )
    window = draw(st.one_of(st.none(), st.none(), st.integers(1, 100)))
    return TreeStep(tuple(sequences), window, draw(st.integers(0, 10_000)))


class Step:
    """Tensors of a step in random slots; every slot that no query may read holds NaN."""

    def __init__(
        self, step: TreeStep, dtype: torch.dtype, head_dim: int, group: int, kv_heads: int = 2
    ) -> None:
        self.window, self.group = step.window, group
        generator = torch.Generator().manual_seed(step.seed)
        total = sum(s.queries + s.own for s in step.sequences)
        fresh = torch.randperm(total + 19, generator=generator)
        self.queries = [s.queries for s in step.sequences]
        self.contexts: list[torch.Tensor] = []
        for s in step.sequences:
            prefix = self._prefix(step, s)
            own, fresh = fresh[: s.own + s.queries], fresh[s.own + s.queries :]
            self.contexts.append(torch.cat((prefix, own)))

        def some(*sizes: int) -> torch.Tensor:
            return torch.randn(sizes, generator=generator).to(dtype)

        self.k, self.v = some(total + 19, kv_heads, head_dim), some(total + 19, kv_heads, head_dim)
        self.q = some(sum(self.queries), kv_heads * group, head_dim)
        hidden = torch.ones(total + 19, dtype=torch.bool)
        for queries, context in zip(self.queries, self.contexts, strict=True):
            if queries:
                hidden[context] = False
        self.k[hidden] = self.v[hidden] = float("nan")
        self.meta = AttentionMeta(
            qo_indptr=_indptr(self.queries),
            kv_indptr=_indptr([len(context) for context in self.contexts]),
            kv_slots=torch.cat(self.contexts),
        )
        self.shape = AttentionShape(kv_heads * group, kv_heads, head_dim, head_dim**-0.5, dtype)

    def _prefix(self, step: TreeStep, s: Sequence) -> torch.Tensor:
        if s.parent < 0:
            return torch.empty(0, dtype=torch.int64)
        parent = self.contexts[s.parent]
        before = len(parent) - step.sequences[s.parent].queries
        return parent[: min(s.shared, before)]

    def run(self, backend: AttentionBackend) -> torch.Tensor:
        return backend.plan(self.meta, self.shape).run(self.q, self.k, self.v, self.window)

    def formula(self) -> torch.Tensor:
        """Each sequence by itself in float64."""
        out = torch.empty(self.q.shape, dtype=torch.float64)
        row = 0
        for queries, slots in zip(self.queries, self.contexts, strict=True):
            rows = slice(row, row + queries)
            row += queries
            keys = self.k[slots].double().repeat_interleave(self.group, dim=1)
            values = self.v[slots].double().repeat_interleave(self.group, dim=1)
            scores = torch.einsum("qhd,khd->hqk", self.q[rows].double(), keys) * self.shape.scale
            places = len(slots) - queries + torch.arange(queries)[:, None]
            keys_at = torch.arange(len(slots))
            unseen = keys_at > places
            if self.window is not None:
                unseen |= keys_at <= places - self.window
            weights = scores.masked_fill(unseen, float("-inf")).softmax(-1)
            out[rows] = torch.einsum("hqk,khd->qhd", weights, values)
        return out


def _indptr(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
