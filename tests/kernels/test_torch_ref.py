"""Attention over paged keys and values against a dense float64 formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.attention import torch_ref
from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.attention.torch_ref import TorchAttention


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class Case:
    lengths: list[tuple[int, int]]  # (queries, context), a sequence each
    num_kv_heads: int
    group: int  # query heads a key head
    head_dim: int
    window: int | None
    shared: int  # leading slots of the context that all sequences have in common
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    few, many = st.integers(1, 4), st.integers(5, 40)
    sizes = st.tuples(st.one_of(st.just(0), few, few, many), st.integers(0, 150))
    lengths = [(q, q + before) for q, before in draw(st.lists(sizes, min_size=1, max_size=8))]
    return Case(
        lengths=lengths,
        num_kv_heads=draw(st.integers(1, 3)),
        group=draw(st.integers(1, 8)),
        head_dim=draw(st.sampled_from((8, 16, 24))),
        window=draw(st.one_of(st.none(), st.integers(1, 60))),
        shared=draw(st.integers(0, 30)),
        seed=draw(st.integers(0, 10_000)),
    )


class Step:
    """Random tensors of a case; slots that no sequence names hold NaN."""

    def __init__(self, case: Case, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(case.seed)
        total = sum(context for _, context in case.lengths) + case.shared
        order = torch.randperm(total + 17, generator=generator)
        common, rest = order[: case.shared], order[case.shared :]
        self.contexts: list[torch.Tensor] = []
        for queries, context in case.lengths:
            prefix = common[: context - queries]
            own = context - len(prefix)
            self.contexts.append(torch.cat((prefix, rest[:own])))
            rest = rest[own:]
        shape = (total + 17, case.num_kv_heads, case.head_dim)
        self.k = torch.randn(shape, generator=generator).to(dtype)
        self.v = torch.randn(shape, generator=generator).to(dtype)
        unused = torch.ones(total + 17, dtype=torch.bool)
        unused[torch.cat(self.contexts)] = False
        self.k[unused] = float("nan")
        self.v[unused] = float("nan")
        num_queries = sum(queries for queries, _ in case.lengths)
        heads = case.num_kv_heads * case.group
        self.q = torch.randn((num_queries, heads, case.head_dim), generator=generator).to(dtype)
        self.meta = AttentionMeta(
            qo_indptr=_indptr([queries for queries, _ in case.lengths]),
            kv_indptr=_indptr([context for _, context in case.lengths]),
            kv_slots=torch.cat(self.contexts),
        )
        self.shape = AttentionShape(heads, case.num_kv_heads, case.head_dim, 0.3, dtype)

    def run(self, window: int | None) -> torch.Tensor:
        return TorchAttention().plan(self.meta, self.shape).run(self.q, self.k, self.v, window)


def _indptr(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)


def dense(step: Step, case: Case) -> torch.Tensor:
    """Every query by itself in float64: a sum over the keys that it may see."""
    out = torch.empty(step.q.shape, dtype=torch.float64)
    row = 0
    for (queries, context), slots in zip(case.lengths, step.contexts, strict=True):
        for i in range(queries):
            place = context - queries + i
            first = 0 if case.window is None else max(0, place - case.window + 1)
            seen = slots[first : place + 1]
            keys = step.k[seen].double().repeat_interleave(case.group, dim=1)
            values = step.v[seen].double().repeat_interleave(case.group, dim=1)
            scores = torch.einsum("hd,khd->hk", step.q[row].double(), keys) * step.shape.scale
            out[row] = torch.einsum("hk,khd->hd", scores.softmax(-1), values)
            row += 1
    return out


@settings(max_examples=60, deadline=None)
@given(cases())
def test_equals_the_dense_formula(case: Case) -> None:
    step = Step(case, torch.float32)
    torch.testing.assert_close(
        step.run(case.window).double(), dense(step, case), atol=2e-5, rtol=2e-5
    )


@settings(max_examples=25, deadline=None)
@given(cases())
def test_bfloat16_is_within_its_rounding(case: Case) -> None:
    step = Step(case, torch.bfloat16)
    out = step.run(case.window)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), dense(step, case), atol=0.03, rtol=0.03)


@pytest.mark.parametrize("block_bytes", [1, 3000, 4 << 20])
def test_block_size_changes_nothing(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_ref, "_BLOCK_BYTES", block_bytes)
    lengths = [(1, n) for n in (1, 5, 300, 6, 80, 299)] + [(3, 50), (0, 9), (40, 90), (3, 49)]
    case = Case(lengths, 2, 3, 16, None, 0, seed=5)
    step = Step(case, torch.float32)
    torch.testing.assert_close(step.run(None).double(), dense(step, case), atol=2e-5, rtol=2e-5)


def test_one_plan_serves_layers_with_and_without_window() -> None:
    case = Case([(1, 40), (5, 70), (30, 30)], 2, 2, 8, None, 0, seed=6)
    step = Step(case, torch.float32)
    plan = TorchAttention().plan(step.meta, step.shape)
    for window in (None, 8, None, 3):
        case.window = window
        out = plan.run(step.q, step.k, step.v, window)
        torch.testing.assert_close(out.double(), dense(step, case), atol=2e-5, rtol=2e-5)


def test_scores_may_be_large() -> None:
    """Softmax subtracts the maximum: no overflow, no NaN."""
    case = Case([(1, 20), (20, 20)], 1, 2, 8, None, 0, seed=7)
    step = Step(case, torch.float32)
    step.q *= 1e4
    out = step.run(None)
    assert bool(torch.isfinite(out).all())
    torch.testing.assert_close(out.double(), dense(step, case), atol=1e-3, rtol=1e-3)


def test_padding_is_bounded() -> None:
    """Rows of very different length must not all be padded to the longest."""
    lengths = [1 << n for n in range(12)] * 3
    case = Case([(1, n) for n in lengths], 1, 1, 8, None, 0, seed=8)
    step = Step(case, torch.float32)
    blocks = list(torch_ref._blocks(step.meta, step.shape, None))
    gathered = sum(block.slots.numel() for block in blocks)
    assert gathered <= math.ceil(sum(lengths) / 0.75) + 32 * len(lengths)
    assert len(blocks) < len(lengths)
