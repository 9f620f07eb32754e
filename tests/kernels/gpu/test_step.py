"""What a step begins with, in Triton against plain torch."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels import rotary, step
from sgc_kernels.gpu import step as gpu

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("tokens", [1, 7, 300])
def test_prepare_step(tokens: int) -> None:
    generator = torch.Generator().manual_seed(tokens)
    rows, context = 9, 41
    places = torch.randperm((rows - 1) * context, generator=generator)[:tokens]
    row, position = places // context, places % context
    slot = torch.randint(0, 1 << 30, (tokens,), generator=generator)
    token = torch.randint(-1, 5, (tokens,), generator=generator)
    numbers = torch.stack([row, slot, position, token], 1).int()
    padding = torch.tensor([[rows - 1, 77, 0, 0]] * 3).int()
    numbers = torch.cat([numbers, padding]).to(DEVICE)
    last_ids = torch.randint(-1, 1000, (rows,), generator=generator).to(DEVICE)
    table = torch.randint(0, 99, (rows, context), generator=generator).int().to(DEVICE)
    found = table.clone(), step.StepTensors.empty(len(numbers), DEVICE)
    expected = table.clone(), step.StepTensors.empty(len(numbers), DEVICE)
    gpu.prepare_step(numbers, found[0], last_ids, found[1])
    step.prepare_step(numbers, expected[0], last_ids, expected[1])
    assert torch.equal(found[0], expected[0])
    for name in ("ids", "positions", "out_slots", "starts", "lens"):
        assert torch.equal(getattr(found[1], name), getattr(expected[1], name)), name
    assert int(found[1].ids.min()) >= 0


def test_fill_table() -> None:
    generator = torch.Generator().manual_seed(5)
    slots = torch.randint(0, 1 << 30, (2500,), generator=generator).int().to(DEVICE)
    runs = torch.tensor([[2, 5, 0, 1300], [0, 0, 1300, 1], [3, 1999, 1301, 1]]).int().to(DEVICE)
    found = torch.zeros(4, 2000, dtype=torch.int32, device=DEVICE)
    expected = found.clone()
    gpu.fill_table(runs, slots, found, 1300)
    step.fill_table(runs, slots, expected, 1300)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("half", [32, 48])
def test_rotary_table(dtype: torch.dtype, half: int) -> None:
    positions = torch.tensor([0, 1, 17, 4_095, 131_071], device=DEVICE)
    inv_freq = (5e5 ** -(torch.arange(half) / half)).to(DEVICE)
    found = gpu.rotary_table(positions, inv_freq, 1.25, dtype)
    expected = rotary.rotary_table(positions, inv_freq, 1.25, dtype)
    tolerance = 2e-6 if dtype == torch.float32 else 1e-3
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
