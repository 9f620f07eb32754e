"""Norm, rotary, activation, products and KV writes against their formulas in float64."""

from __future__ import annotations

import math

import pytest
import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.kv_store import store_kv
from sgc_kernels.linear import PackedLinear, PlainLinear, can_pack
from sgc_kernels.norm import add_rms_norm, rms_norm
from sgc_kernels.rotary import apply_rotary, rotary_table

CPU = torch.device("cpu")
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}
DTYPES = sorted(TOLERANCE, key=str)


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype)


def check(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


def norm_formula(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 8), (7, 64), (5, 3, 16)])
def test_rms_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, weight = random(*shape, dtype=dtype) * 3, random(shape[-1], dtype=dtype)
    before = x.clone()
    check(rms_norm(x, weight, 1e-5), norm_formula(x, weight, 1e-5), dtype)
    assert torch.equal(x, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rms_norm_of_a_slice_and_of_zeros(dtype: torch.dtype) -> None:
    wide, weight = random(6, 5, 16, dtype=dtype), random(16, dtype=dtype)
    check(rms_norm(wide[:, 1:3], weight, 1e-6), norm_formula(wide[:, 1:3], weight, 1e-6), dtype)
    assert bool((rms_norm(torch.zeros(2, 16, dtype=dtype), weight, 1e-6) == 0).all())


def test_large_values_do_not_overflow_in_half_precision() -> None:
    x = torch.full((1, 64), 30_000.0, dtype=torch.float16)
    out = rms_norm(x, torch.ones(64, dtype=torch.float16), 1e-6)
    torch.testing.assert_close(out, torch.ones_like(out))


@pytest.mark.parametrize("dtype", DTYPES)
def test_add_rms_norm(dtype: torch.dtype) -> None:
    x, residual, weight = (random(n, 16, dtype=dtype) for n in (4, 4, 1))
    total = (x + residual).clone()
    out = add_rms_norm(x, residual, weight[0], 1e-6)
    assert torch.equal(residual, total)
    check(out, norm_formula(total, weight[0], 1e-6), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rotary_turns_pairs_by_position_times_frequency(dtype: torch.dtype) -> None:
    inv_freq = torch.tensor([1.0, 0.3, 0.05, 0.001])
    positions = torch.tensor([0, 1, 5, 3000])
    x = random(4, 3, 8, dtype=dtype)
    out = apply_rotary(x, rotary_table(positions, inv_freq, 1.5, dtype))
    expected = torch.empty(4, 3, 8, dtype=torch.float64)
    for t, position in enumerate(positions.tolist()):
        for i, frequency in enumerate(inv_freq.tolist()):
            # The angle is a float32 product, as in every implementation of these models.
            angle = float(torch.tensor(float(position)) * torch.tensor(frequency))
            turn = torch.tensor(1.5 * complex(math.cos(angle), math.sin(angle)))
            pair = torch.complex(x[t, :, i].double(), x[t, :, i + 4].double()) * turn
            expected[t, :, i], expected[t, :, i + 4] = pair.real, pair.imag
    check(out, expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_mul(dtype: torch.dtype) -> None:
    x = random(5, 12, dtype=dtype) * 4
    gate, up = x.double().chunk(2, dim=-1)
    check(silu_mul(x), gate / (1 + (-gate).exp()) * up, dtype)


def test_store_kv_writes_its_slots_only() -> None:
    k, v = random(3, 2, 4), random(3, 2, 4) + 1
    k_cache, v_cache = torch.full((8, 2, 4), -1.0), torch.full((8, 2, 4), -2.0)
    store_kv(k, v, k_cache, v_cache, torch.tensor([6, 0, 3]))
    for row, slot in enumerate((6, 0, 3)):
        assert torch.equal(k_cache[slot], k[row])
        assert torch.equal(v_cache[slot], v[row])
    others = [1, 2, 4, 5, 7]
    assert bool((k_cache[others] == -1).all())
    assert bool((v_cache[others] == -2).all())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 33])
def test_packed_products_equal_plain_ones(rows: int, bias: bool, dtype: torch.dtype) -> None:
    if not can_pack(CPU, dtype):
        pytest.skip("this build of torch has no packed products")
    weight, x = random(40, 24, dtype=dtype), random(rows, 24, dtype=dtype)
    offset = random(40, dtype=dtype) if bias else None
    expected = x.double() @ weight.double().T + (0 if offset is None else offset.double())
    for kind in (PlainLinear, PackedLinear):
        out = kind(weight, offset)(x)
        assert out.dtype == dtype
        tolerance = 2e-5 if dtype == torch.float32 else 0.1
        torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=1e-2)


def test_only_formats_with_packed_products_are_packed() -> None:
    assert not can_pack(CPU, torch.float64)
    assert not can_pack(torch.device("meta"), torch.float32)
