"""Triton's norms, rotary turn and activation against the references in torch: in the interpreter
where there is no GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels import activation, kv_store, norm, rotary
from sgc_kernels.gpu import activation as gpu_activation
from sgc_kernels.gpu import norm as gpu_norm
from sgc_kernels.gpu import rotary as gpu_rotary

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
DTYPES = [torch.float32, torch.float16]
TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3}


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return numbers.to(DEVICE, dtype)


def check(out: torch.Tensor, expected: torch.Tensor) -> None:
    assert out.dtype == expected.dtype
    assert out.shape == expected.shape
    tolerance = TOLERANCE[out.dtype]
    torch.testing.assert_close(out, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 8), (7, 65), (3, 576), (2, 1000), (5, 3, 96), (2, 2100)])
def test_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = 3 * random(*shape, dtype=dtype), random(shape[-1], dtype=dtype, seed=1)
    before = x.clone()
    check(gpu_norm.rms_norm(x, weight, 1e-5), norm.rms_norm(x, weight, 1e-5))
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_reads_slices_where_they_lie(dtype: torch.dtype) -> None:
    qkv, weight = random(9, 7, 32, dtype=dtype), random(32, dtype=dtype, seed=1)
    qkv[:, 5:] = torch.nan
    heads = qkv[:, 1:5]
    check(gpu_norm.rms_norm(heads, weight, 1e-6), norm.rms_norm(heads, weight, 1e-6))
    rows = qkv.flatten(1)[:, 32:64]
    check(gpu_norm.rms_norm(rows, weight, 1e-6), norm.rms_norm(rows, weight, 1e-6))
    columns = random(32, 6, dtype=dtype).T
    check(gpu_norm.rms_norm(columns, weight, 1e-6), norm.rms_norm(columns, weight, 1e-6))


def test_large_values_and_zeros() -> None:
    ones = torch.ones(64, dtype=torch.float16, device=DEVICE)
    large = torch.full((2, 64), 30_000.0, dtype=torch.float16, device=DEVICE)
    large[1] = 0.0
    out = gpu_norm.rms_norm(large, ones, 1e-6)
    torch.testing.assert_close(out[0], ones)
    assert bool((out[1] == 0).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 8), (6, 96), (3, 1500)])
def test_add_rms_norm_updates_the_residual(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x, residual = random(*shape, dtype=dtype), random(*shape, dtype=dtype, seed=2)
    weight, expected_residual = random(shape[1], dtype=dtype, seed=1), residual.clone()
    expected = norm.add_rms_norm(x, expected_residual, weight, 1e-6)
    check(gpu_norm.add_rms_norm(x, residual, weight, 1e-6), expected)
    assert torch.equal(residual, expected_residual)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 6), (5, 72), (2, 2 * 1536)])
def test_silu_mul(shape: tuple[int, int], dtype: torch.dtype) -> None:
    x = 4 * random(*shape, dtype=dtype)
    check(gpu_activation.silu_mul(x), activation.silu_mul(x))
    wide = torch.cat((x, x), dim=1)[:, : shape[1]]
    check(gpu_activation.silu_mul(wide), activation.silu_mul(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("heads", [(9, 3), (4, 4), (16, 1)])
@pytest.mark.parametrize("normed", [False, True])
def test_turn_and_store(
    heads: tuple[int, int], head_dim: int, normed: bool, dtype: torch.dtype
) -> None:
    tokens, (q_heads, kv_heads) = 3, heads
    qkv = random(tokens, q_heads + 2 * kv_heads, head_dim, dtype=dtype)
    inv_freq = 1e4 ** -(torch.arange(head_dim // 2, device=DEVICE) / (head_dim // 2))
    positions = torch.tensor([0, 700, 3], device=DEVICE)
    table = rotary.rotary_table(positions, inv_freq, 1.0, dtype)
    slots = torch.tensor([6, 0, 3], device=DEVICE)
    pools = [torch.full((8, kv_heads, head_dim), -9.0, dtype=dtype, device=DEVICE) for _ in "kvkv"]
    before = qkv.clone()
    if normed:
        norms = (random(head_dim, dtype=dtype, seed=3), random(head_dim, dtype=dtype, seed=4))
        arguments = (qkv, norms, 1e-6, table)
        expected = kv_store.norm_turn_and_store(*arguments, pools[0], pools[1], slots)
        out = gpu_rotary.norm_turn_and_store(*arguments, pools[2], pools[3], slots)
    else:
        expected = kv_store.turn_and_store(qkv, table, pools[0], pools[1], slots)
        out = gpu_rotary.turn_and_store(qkv, table, pools[2], pools[3], slots)
    check(out, expected)
    check(pools[2], pools[0])
    assert torch.equal(pools[3], pools[1])
    assert torch.equal(qkv, before)


def test_turn_and_store_of_a_slice_and_of_no_tokens() -> None:
    wide = random(4, 5, 64, dtype=torch.float32)
    pools = [torch.zeros(9, 1, 64, device=DEVICE) for _ in "kvkv"]
    positions, inv_freq = torch.arange(4, device=DEVICE), torch.rand(32, device=DEVICE)
    table = rotary.rotary_table(positions, inv_freq, 1.0, torch.float32)
    slots = torch.tensor([8, 1, 2, 5], device=DEVICE)
    expected = kv_store.turn_and_store(wide[:, 1:], table, pools[0], pools[1], slots)
    check(gpu_rotary.turn_and_store(wide[:, 1:], table, pools[2], pools[3], slots), expected)
    assert torch.equal(pools[3], pools[1])
    none = (table[0][:0], table[1][:0])
    assert gpu_rotary.turn_and_store(wide[:0], none, pools[2], pools[3], slots[:0]).shape[0] == 0


@pytest.fixture
def poison() -> Iterator[None]:
    """New memory holds NaN."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.usefixtures("poison")
@pytest.mark.parametrize("seed", range(30))
def test_random_shapes_in_bfloat16(seed: int) -> None:
    pick, dtype = torch.Generator().manual_seed(seed), torch.bfloat16
    tokens, width, q_heads, half = (
        int(torch.randint(low, high, (1,), generator=pick))
        for low, high in ((1, 600), (1, 9000), (1, 40), (8, 129))
    )
    x, weight = random(tokens, width, dtype=dtype), random(width, dtype=dtype)
    residual, both = random(tokens, width, dtype=dtype, seed=1), random(tokens, width, dtype=dtype)
    both += random(tokens, width, dtype=dtype, seed=1)
    out = gpu_norm.add_rms_norm(x, residual, weight, 1e-5)
    exact = both.double()
    exact = exact / (exact.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    assert torch.equal(residual, both)
    assert float((out.double() - exact).norm() / exact.norm()) < 5e-3
    gated = gpu_activation.silu_mul(torch.cat((x, both), dim=1)).double()
    exact = torch.nn.functional.silu(x.double()) * both.double()
    assert float((gated - exact).norm() / exact.norm()) < 5e-3

    kv_heads = 1 + seed % 4
    qkv = random(tokens, q_heads + 2 * kv_heads, 2 * half, dtype=dtype)
    positions, inv_freq = torch.arange(tokens, device=DEVICE), torch.rand(half, device=DEVICE)
    table = rotary.rotary_table(positions, inv_freq, 1.0, dtype)
    slots = torch.randperm(tokens + 5, device=DEVICE)[:tokens]
    pools = [torch.full((tokens + 5, kv_heads, 2 * half), torch.nan, device=DEVICE) for _ in "kvkv"]
    mine = [pool.to(dtype) for pool in pools[:2]]
    exact_pools = [pool.double() for pool in pools[2:]]
    q = gpu_rotary.turn_and_store(qkv, table, *mine, slots)
    exact_table = (table[0].double(), table[1].double())
    exact = kv_store.turn_and_store(qkv.double(), exact_table, *exact_pools, slots)
    assert float((q.double() - exact).norm() / exact.norm()) < 5e-3
    for pool, expected in zip(mine, exact_pools):
        torch.testing.assert_close(pool.double(), expected, atol=4e-2, rtol=1e-2, equal_nan=True)
