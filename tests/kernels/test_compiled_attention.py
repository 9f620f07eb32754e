"""Compiled attention and operations against dense float64 formulas and the references."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.attention.compiled import CompiledAttention, can_attend
from sgc_kernels.compiled.machine_code import load_machine_code
from sgc_kernels.compiled.operations import CompiledOperations
from sgc_kernels.kv_store import turn_and_store
from sgc_kernels.norm import add_rms_norm, rms_norm
from sgc_kernels.rotary import rotary_table


def _reference() -> ModuleType:
    """The cases and the dense formula of the reference's own tests."""
    path = Path(__file__).with_name("test_torch_ref.py")
    spec = importlib.util.spec_from_file_location("torch_ref_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


ref = _reference()
TOLERANCE = {torch.float32: 3e-5, torch.bfloat16: 0.04}
DTYPES = sorted(TOLERANCE, key=str)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(25))
def test_equals_the_dense_formula(seed: int, dtype: torch.dtype) -> None:
    chance = random.Random(seed)
    lengths = []
    for _ in range(chance.randint(1, 8)):
        queries = chance.choice([0, 1, 1, 1, 2, 5, 17, 40])
        lengths.append((queries, queries + chance.randint(0, 150)))
    window = chance.choice([None, None, 5, 60])
    shared = chance.choice([0, 30, 100])
    case = ref.Case(lengths, chance.randint(1, 3), 3, 64, window, shared, seed)
    step = ref.Step(case, dtype)
    out = CompiledAttention().plan(step.meta, step.shape).run(step.q, step.k, step.v, window)
    assert out.dtype == dtype
    error = TOLERANCE[dtype]
    torch.testing.assert_close(out.double(), ref.dense(step, case), atol=error, rtol=error)


def test_unknown_shapes_are_refused() -> None:
    assert can_attend(torch.bfloat16, 64, 3)
    assert not can_attend(torch.bfloat16, 16, 3)
    assert not can_attend(torch.float64, 64, 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operations_equal_their_references(dtype: torch.dtype) -> None:
    operations = CompiledOperations(load_machine_code(dtype, 64, 3))
    generator = torch.Generator().manual_seed(1)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    x, residual, weight = some(5, 576), some(5, 576), some(576)
    error = {"atol": 2e-5, "rtol": 2e-5} if dtype == torch.float32 else {"atol": 0.04, "rtol": 0.02}
    other = residual.clone()
    torch.testing.assert_close(
        operations.rms_norm(x, weight, 1e-5), rms_norm(x, weight, 1e-5), **error
    )
    torch.testing.assert_close(
        operations.add_rms_norm(x, residual, weight, 1e-5),
        add_rms_norm(x, other, weight, 1e-5),
        **error,
    )
    assert torch.equal(residual, other)
    gate_up = some(5, 3072) * 4
    torch.testing.assert_close(operations.silu_mul(gate_up), silu_mul(gate_up), **error)
    _check_turn(operations, some(5, 15, 64), dtype, error)


def _check_turn(
    operations: CompiledOperations, qkv: torch.Tensor, dtype: torch.dtype, error: dict[str, float]
) -> None:
    table = rotary_table(torch.arange(5) * 7, torch.rand(32), 1.0, dtype)
    slots = torch.tensor([3, 0, 9, 5, 1])
    caches = [torch.zeros(10, 3, 64, dtype=dtype) for _ in range(4)]
    q = operations.turn_and_store(qkv, table, caches[0], caches[1], slots)
    expected = turn_and_store(qkv, table, caches[2], caches[3], slots)
    torch.testing.assert_close(q, expected, **error)
    torch.testing.assert_close(caches[0], caches[2], **error)
    assert torch.equal(caches[1], caches[3])
