"""Compiled norms, activation, rotary turn and KV writes against float64 formulas."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.compiled.machine_code import load_machine_code
from sgc_kernels.compiled.operations import CompiledOperations
from sgc_kernels.rotary import rotary_table

# Relative and absolute: several roundings of a result, or one where the format is float32.
ERROR = {torch.float32: 3e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}
SHAPES = [(torch.float32, 64, 3), (torch.bfloat16, 64, 3), (torch.float16, 96, 1)]


def some(seed: int, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, atol=ERROR[dtype], rtol=ERROR[dtype])


def normed(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()


# Beyond a scale of 20, float16 has no room for the activation's products.
# Widths that do not divide into vectors go to the references, many numbers to several threads.
sizes = st.tuples(st.integers(1, 80), st.integers(1, 40).map(lambda n: 8 * n))


@pytest.mark.parametrize(("dtype", "head_dim", "group"), SHAPES)
def test_norms_and_activation(dtype: torch.dtype, head_dim: int, group: int) -> None:
    operations = CompiledOperations(load_machine_code(dtype, head_dim, group))

    @settings(max_examples=40, deadline=None)
    @given(sizes, st.integers(0, 10_000), st.sampled_from((0.0, 0.01, 1.0, 20.0)))
    def holds(size: tuple[int, int], seed: int, scale: float) -> None:
        x, residual = some(seed, dtype, *size) * scale, some(seed + 1, dtype, *size)
        weight, before = some(seed + 2, dtype, size[1]), x.clone()
        check(operations.rms_norm(x, weight, 1e-5), normed(x, weight), dtype)
        total = x + residual
        out = operations.add_rms_norm(x, residual, weight, 1e-5)
        assert torch.equal(residual, total)
        check(out, normed(total, weight), dtype)
        gate, up = torch.cat((x, total), -1).double().chunk(2, dim=-1)
        activated = operations.silu_mul(torch.cat((x, total), -1))
        check(activated, gate / (1 + (-gate).exp()) * up, dtype)
        assert torch.equal(x, before)

    holds()


def test_norm_of_a_slice() -> None:
    operations = CompiledOperations(load_machine_code(torch.float32, 64, 3))
    wide, weight = some(1, torch.float32, 6, 5, 64), some(2, torch.float32, 64)
    check(operations.rms_norm(wide[:, 1:3], weight, 1e-5), normed(wide[:, 1:3], weight), wide.dtype)


@pytest.mark.parametrize(("dtype", "head_dim", "group"), SHAPES)
def test_turn_and_store(dtype: torch.dtype, head_dim: int, group: int) -> None:
    operations = CompiledOperations(load_machine_code(dtype, head_dim, group))

    @settings(max_examples=30, deadline=None)
    @given(st.integers(1, 20), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
    def holds(tokens: int, kv_heads: int, seed: int, sliced: bool) -> None:
        heads = kv_heads * (group + 2)
        qkv = some(seed, dtype, tokens, heads + sliced, head_dim)[:, :heads]
        positions = torch.randint(0, 5000, (tokens,))
        table = rotary_table(positions, torch.rand(head_dim // 2), 1.0, dtype)
        slots = torch.randperm(tokens + 7)[:tokens]
        k = torch.full((tokens + 7, kv_heads, head_dim), -1.0).to(dtype)
        v = k.clone()
        q = operations.turn_and_store(qkv, table, k, v, slots)
        turned = _turned(qkv[:, :-kv_heads], *table)
        check(q, turned[:, : kv_heads * group], dtype)
        check(k[slots], turned[:, kv_heads * group :], dtype)
        assert torch.equal(v[slots], qkv[:, -kv_heads:])
        unused = torch.ones(tokens + 7, dtype=torch.bool)
        unused[slots] = False
        assert bool((k[unused] == -1).all())
        assert bool((v[unused] == -1).all())

    holds()


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Pairs (i, i + half) as complex numbers, times the table's."""
    low, high = x.double().chunk(2, dim=-1)
    half = x.shape[-1] // 2
    cos, sin = (part.double().reshape(len(x), 1, -1)[..., -half:] for part in (cos, sin))
    return torch.cat((low * cos - high * sin, high * cos + low * sin), -1)
