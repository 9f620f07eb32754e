"""Triton's attention of new tokens against the dense float64 formula: in the interpreter where
there is no GPU."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.attention.torch_ref import TorchAttention
from sgc_kernels.gpu.attention import backend, extend_plan
from sgc_kernels.gpu.attention.backend import TritonAttention
from sgc_kernels.gpu.attention.extend import Tile
from sgc_kernels.gpu.attention.extend_plan import Rows, plan_extend

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# Norm of the error over the norm of the result; weights are rounded to the number format.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


@dataclass
class Case:
    lengths: list[tuple[int, int]]  # (queries, context), a sequence each
    heads: tuple[int, int]  # query heads, key heads
    head_dim: int
    window: int | None = None
    shared: int = 0  # leading slots that all sequences have in common
    dtype: torch.dtype = torch.float32


class Step:
    """Random tensors of a case; slots that no sequence names hold NaN."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        total = sum(context for _, context in case.lengths) + case.shared
        order = torch.randperm(total + 9, generator=generator)
        common, rest = order[: case.shared], order[case.shared :]
        contexts = []
        for queries, context in case.lengths:
            prefix = common[: context - queries]
            own = context - len(prefix)
            contexts.append(torch.cat((prefix, rest[:own])))
            rest = rest[own:]
        shape = (total + 9, case.heads[1], case.head_dim)
        poison = torch.ones(total + 9, dtype=torch.bool)
        poison[torch.cat(contexts)] = False
        self.k, self.v = (torch.randn(shape, generator=generator) for _ in range(2))
        self.k[poison] = torch.nan
        self.v[poison] = torch.nan
        rows = sum(queries for queries, _ in case.lengths)
        self.q = torch.randn((rows, case.heads[0], case.head_dim), generator=generator)
        self.q, self.k, self.v = (x.to(DEVICE, case.dtype) for x in (self.q, self.k, self.v))
        self.meta = AttentionMeta(
            qo_indptr=_indptr([queries for queries, _ in case.lengths]),
            kv_indptr=_indptr([context for _, context in case.lengths]),
            kv_slots=torch.cat(contexts).to(DEVICE),
            shared=_shared([min(case.shared, context - q) for q, context in case.lengths]),
        )
        self.shape = AttentionShape(
            *case.heads, case.head_dim, scale=case.head_dim**-0.5, dtype=case.dtype
        )


def _shared(prefixes: list[int]) -> torch.Tensor:
    return torch.tensor([0, *map(min, prefixes, prefixes[1:])], dtype=torch.int32)


def _indptr(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)


def expected(step: Step, window: int | None) -> torch.Tensor:
    """The reference in float64."""
    meta = AttentionMeta(
        step.meta.qo_indptr, step.meta.kv_indptr, step.meta.kv_slots.cpu(), step.meta.kv_ends
    )
    shape = AttentionShape(
        step.shape.num_heads,
        step.shape.num_kv_heads,
        step.shape.head_dim,
        step.shape.scale,
        torch.float64,
    )
    q, k, v = (x.double().cpu() for x in (step.q, step.k, step.v))
    return TorchAttention().plan(meta, shape).run(q, k, v, window)


def check(case: Case, seed: int = 0) -> torch.Tensor:
    step = Step(case, seed)
    plan = TritonAttention().plan(step.meta, step.shape)
    out = plan.run(step.q, step.k, step.v, case.window)
    right = expected(step, case.window)
    assert out.dtype == case.dtype
    assert out.shape == right.shape
    error = (out.double().cpu() - right).norm() / max(float(right.norm()), 1e-9)
    assert error < TOLERANCE[case.dtype], (case, float(error))
    return out


@pytest.fixture(autouse=True)
def _poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `torch.empty` gives holds NaN: results that are not written cannot look right."""
    real = torch.empty

    def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = real(*args, **kwargs)
        return out.fill_(torch.nan) if out.is_floating_point() else out

    monkeypatch.setattr(backend.torch, "empty", empty)


@pytest.fixture
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extend_plan, "_LEAST_PART", 16)
    monkeypatch.setattr(extend_plan, "_PARTIAL", 1)  # so that prefixes are read together


CASES = [
    Case([(1, 1)], (1, 1), 64),
    Case([(5, 5)], (3, 1), 64),
    Case([(0, 12), (3, 40), (0, 1), (1, 33)], (4, 2), 64),
    Case([(20, 70), (7, 7)], (8, 4), 96),
    Case([(9, 90)], (16, 1), 64),
    Case([(6, 50)], (2, 2), 256),
    Case([(17, 80), (1, 60)], (4, 2), 64, window=1),
    Case([(17, 80), (1, 60), (4, 4)], (4, 2), 64, window=37),
    Case([(3, 60), (5, 62), (1, 50)], (4, 2), 64, shared=40),
    Case([(1, 60 + i % 3 * i) for i in range(9)], (4, 2), 64, shared=40),
    Case([(1, 60), (4, 50), (1, 70), (0, 30), (1, 61), (1, 63)], (4, 2), 64, shared=45),
    Case([(1, 60 + i) for i in range(7)], (4, 2), 64, window=40, shared=50),
    Case([(2, 60), (3, 70), (0, 66), (2, 52), (1, 60), (2, 61), (4, 63)], (4, 2), 64, shared=45),
    Case([(70, 200), (1, 9)], (4, 2), 64, dtype=torch.float16),
    Case([(70, 200), (1, 150)], (4, 2), 64, window=90, dtype=torch.float16),
    Case([(33, 40)], (7, 1), 128, dtype=torch.float16),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_float64(case: Case) -> None:
    check(case)


@pytest.mark.usefixtures("_short_parts")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_contexts_in_parts(case: Case) -> None:
    check(case)


def test_plans_and_windows_take_turns() -> None:
    case = Case([(1, 60), (4, 50), (1, 70), (1, 61)], (4, 2), 64, shared=45)
    backend, steps = TritonAttention(), [Step(case, seed) for seed in range(2)]
    plans = [backend.plan(step.meta, step.shape) for step in steps]
    for window in (None, 30, 200, 30, None):
        for step, plan in zip(steps, plans):
            out = plan.run(step.q, step.k, step.v, window)
            right = expected(step, window)
            torch.testing.assert_close(out.double().cpu(), right, atol=1e-5, rtol=1e-5)


def test_a_step_without_queries() -> None:
    out = check(Case([(0, 5), (0, 3)], (2, 1), 64))
    assert out.shape == (0, 2, 64)


def test_open_ends_and_strided_queries() -> None:
    step = Step(Case([(4, 30), (2, 20)], (4, 2), 64))
    right = expected(step, None)
    room = torch.full((6, 9, 64), torch.nan, device=DEVICE)
    room[:, 1:5] = step.q
    meta = step.meta
    slots = torch.cat((meta.kv_slots[:30], meta.kv_slots[:7], meta.kv_slots[30:])).int()
    opened = AttentionMeta(
        meta.qo_indptr,
        torch.tensor([0, 37, 57], dtype=torch.int32),
        slots,
        torch.tensor([30, 57], dtype=torch.int32),
    )
    out = TritonAttention().plan(opened, step.shape).run(room[:, 1:5], step.k, step.v)
    torch.testing.assert_close(out.double().cpu(), right, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(60))
def test_items_cover_every_query_and_key_once(seed: int) -> None:
    rng = random.Random(seed)
    tiles = (Tile(128, 64, 8, 2, 2), Tile(64, 64, 4, 2, 2), Tile(16, 64, 4, 3, 3))
    group, window = rng.choice([1, 3, 4, 16]), rng.choice([None, None, 1, 100, 5000])
    rows = _random_rows(rng)
    plan = plan_extend(rows, tiles, 8 * group, 8, window, 132)
    slot_of = {int(first): b for b, first in enumerate(rows.context)}
    spans: dict[int, dict[int, tuple[int, int]]] = {}  # by token, by place of the result
    for tile, items in plan.items:
        assert (items[:, 1] * group <= tile.lines).all()
        for row, tokens, context, start, end, position, partial, _ in items.tolist():
            assert start < end <= position + tokens
            assert row >= rows.row[slot_of[context]]
            for token in range(row, row + tokens):
                place = -1 if partial < 0 else partial + token - row
                assert place not in spans.setdefault(token, {})
                spans[token][place] = (start, end)
                b = int(np.searchsorted(rows.row, token, side="right")) - 1
                if b != slot_of[context]:
                    assert end <= rows.shared[slot_of[context] + 1 : b + 1].min()
                    assert end <= position
                elif end - 1 > position:
                    assert position == rows.length[b] - rows.queries[b] + row - rows.row[b]
    for row, first, by, n, own_first, own_by, own_n, _ in plan.merges.tolist():
        own = [own_first + i * own_by for i in range(own_n)]
        places = [first + i * by for i in range(n)] + own
        assert sorted(spans[row]) == sorted(places)
        assert len(places) > 1
    all_places = [place for found in spans.values() for place in found if place >= 0]
    assert sorted(all_places) == list(range(plan.num_partials))
    assert len(plan.merges) == sum(-1 not in found for found in spans.values())
    for b, first in enumerate(rows.row):
        for i in range(rows.queries[b]):
            found = sorted(spans.pop(int(first) + i).values())
            _check_spans(found, int(rows.length[b] - rows.queries[b]) + i, window)
    assert not spans


def _random_rows(rng: random.Random) -> Rows:
    if rng.random() < 0.5:
        queries = np.array([rng.choice([1, 2, 16, 100, 700]) for _ in range(rng.randrange(1, 9))])
        before = np.array([rng.choice([0, 1, 63, 1000, 9000]) for _ in queries])
    else:
        queries = np.array([rng.randrange(1, 12) for _ in range(rng.randrange(2, 90))])
        before = np.array([rng.choice([900, 2000, 2500]) for _ in queries])
    shared = np.array([rng.choice([0, 800, 2000, 2000, 2000]) for _ in queries])
    shared[1:] = np.minimum(shared[1:], np.minimum(before[1:], before[:-1]))
    shared[0] = 0
    length = queries + before
    starts = np.cumsum(length) - length
    return Rows(np.cumsum(queries) - queries, queries, starts, length, shared)


def test_neighbours_with_few_tokens_read_their_prefix_together() -> None:
    tiles = (Tile(128, 64, 8, 2, 2), Tile(64, 64, 4, 2, 2), Tile(16, 64, 4, 3, 3))
    queries, before = np.full(64, 5), np.full(64, 1500)
    rows = Rows(
        np.arange(64) * 5, queries, np.arange(64) * 1600, before + 5, np.array([0] + [1500] * 63)
    )
    plan = plan_extend(rows, tiles, 32, 8, None, 132)
    read = sum(int((items[:, 4] - items[:, 3]).sum()) for _, items in plan.items)
    assert read == 10 * 1500 + 64 * 5
    rows = Rows(np.arange(64) * 5, queries, np.arange(64) * 1600, before + 5, np.zeros(64, int))
    plan = plan_extend(rows, tiles, 32, 8, None, 132)
    assert sum(int((items[:, 4] - items[:, 3]).sum()) for _, items in plan.items) == 64 * 1505


def _check_spans(spans: list[tuple[int, int]], position: int, window: int | None) -> None:
    assert spans[0][0] <= max(0, position - (window or position + 1) + 1)
    assert spans[-1][1] > position
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("seed", range(6))
def test_random_steps(seed: int, head_dim: int, dtype: torch.dtype) -> None:
    rng = random.Random(1000 * seed + head_dim)
    kv_heads = rng.choice([1, 2, 8])
    lengths = []
    for _ in range(rng.randrange(1, 9)):
        queries = rng.choice([0, 1, 1, 5, 16, rng.randrange(1, 300)])
        lengths.append((queries, queries + rng.choice([0, 1, 64, rng.randrange(1, 4000)])))
    case = Case(
        lengths,
        (kv_heads * rng.choice([1, 2, 3, 4, 7, 16]), kv_heads),
        head_dim,
        window=rng.choice([None, None, 1, 129, 1000]),
        shared=rng.choice([0, 500]),
        dtype=dtype,
    )
    check(case, seed)
