"""Compiled attention against its formula in float64, over ragged steps whose contexts are trees."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.attention_cases import Sequence, Step, TreeStep, tree_steps

from sgc_kernels.attention.compiled import CompiledAttention, can_attend

ERROR = {torch.float32: 2e-5, torch.bfloat16: 0.03, torch.float16: 4e-3}
SHAPES = [
    (torch.float32, 64, 3),
    (torch.bfloat16, 64, 3),
    (torch.bfloat16, 128, 8),
    (torch.float16, 96, 1),
]
ALL_SHAPES = [
    (dtype, head_dim, group)
    for dtype in ERROR
    for head_dim in (32, 64, 96, 128, 160, 192, 224, 256)
    for group in (1, 2, 3, 4, 5, 6, 7, 8, 16, 32)
]


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check(step: Step, backend: CompiledAttention, count: int = 1) -> None:
    with threads(count):
        out = step.run(backend)
    assert out.dtype == step.shape.dtype
    error = ERROR[out.dtype]
    torch.testing.assert_close(out.double(), step.formula(), atol=error, rtol=error)


@pytest.mark.parametrize(("dtype", "head_dim", "group"), SHAPES)
def test_equals_the_formula(dtype: torch.dtype, head_dim: int, group: int) -> None:
    backend = CompiledAttention()

    @settings(max_examples=60, deadline=None)
    @given(tree_steps(), st.integers(1, 2))
    def holds(step: TreeStep, count: int) -> None:
        check(Step(step, dtype, head_dim, group), backend, count)

    holds()


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "head_dim", "group"), ALL_SHAPES)
def test_every_offered_shape_equals_the_formula(
    dtype: torch.dtype, head_dim: int, group: int
) -> None:
    assert can_attend(dtype, head_dim, group)
    backend = CompiledAttention()

    @settings(max_examples=15, deadline=None)
    @given(tree_steps(), st.integers(1, 2))
    def holds(step: TreeStep, count: int) -> None:
        check(Step(step, dtype, head_dim, group, kv_heads=1), backend, count)

    holds()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("queries", [1, 16, 200])
def test_a_very_long_context_is_cut_for_the_threads(queries: int, dtype: torch.dtype) -> None:
    step = TreeStep((Sequence(queries, 20_000, -1, 0),), None, seed=3)
    check(Step(step, dtype, 64, 3, kv_heads=1), CompiledAttention(), 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_token_sees_itself(dtype: torch.dtype) -> None:
    step = Step(TreeStep((Sequence(1, 0, -1, 0),), None, seed=4), dtype, 64, 3)
    out = step.run(CompiledAttention())
    values = step.v[step.contexts[0]].repeat_interleave(3, dim=1)
    assert torch.equal(out, values)


def test_sequences_without_queries_give_nothing() -> None:
    step = Step(TreeStep((Sequence(0, 9, -1, 0),) * 3, None, seed=5), torch.float32, 64, 3)
    assert step.run(CompiledAttention()).shape == (0, 6, 64)


def test_many_rows_behind_one_prefix() -> None:
    """More rows than a block holds, a prefix of two levels, tails of equal and unequal length."""
    rows = [Sequence(0, 300, -1, 0), Sequence(0, 70, 0, 300)]
    rows += [Sequence(1, n % 7 * 20, n % 2, 370) for n in range(150)]
    check(Step(TreeStep(tuple(rows), None, 6), torch.float32, 64, 3), CompiledAttention(), 2)


def test_large_scores_do_not_overflow() -> None:
    step = Step(TreeStep((Sequence(1, 50, -1, 0), Sequence(30, 9, -1, 0)), None, 7), torch.float32, 64, 3)  # fmt: skip  # noqa: E501
    step.q *= 1e4
    out = step.run(CompiledAttention())
    torch.testing.assert_close(out.double(), step.formula(), atol=1e-2, rtol=1e-3)


def test_one_backend_serves_steps_of_any_size_and_layers_of_any_window() -> None:
    backend = CompiledAttention()
    for rows in (3, 40, 1, 17):
        sequences = tuple(Sequence(1, 5 * n, n - 1, 5 * n) for n in range(rows))
        step = Step(TreeStep(sequences, None, rows), torch.float32, 64, 3)
        plan = backend.plan(step.meta, step.shape)
        for window in (None, 8, None, 1):
            step.window = window
            out = plan.run(step.q, step.k, step.v, window)
            torch.testing.assert_close(out.double(), step.formula(), atol=2e-5, rtol=2e-5)


def test_unknown_shapes_are_refused() -> None:
    assert can_attend(torch.bfloat16, 64, 3)
    assert not can_attend(torch.bfloat16, 16, 3)
    assert not can_attend(torch.bfloat16, 80, 3)
    assert not can_attend(torch.bfloat16, 512, 3)
    assert not can_attend(torch.float64, 64, 3)


def test_threads_may_plan_at_the_same_time() -> None:
    """Two engines on one loaded model: neither disturbs the other's step."""
    backend = CompiledAttention()
    steps = [
        Step(TreeStep((Sequence(1, 40 + n, -1, 0),) * (n + 2), None, n), torch.float32, 64, 3)
        for n in range(4)
    ]

    def right(step: Step) -> bool:
        expected = step.formula()
        return all(
            torch.allclose(step.run(backend).double(), expected, atol=2e-5) for _ in range(100)
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(right, steps))
