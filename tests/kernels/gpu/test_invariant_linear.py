"""Products whose rows do not depend on the number of rows: the same bits, and against float64."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from sgc_kernels.gpu.invariant_linear import (
    InvariantLinear,
    Tile,
    choose_tile,
    invariant_linear,
)
from sgc_kernels.linear import float32_product

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BOUND = {torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
SMALL = (
    Tile(16, 16, 16, 4, 2),
    Tile(32, 16, 32, 4, 2),
    Tile(16, 64, 64, 4, 3),
)
pytestmark = pytest.mark.usefixtures("products_in_order")


def make(
    rows: int, outs: int, width: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + outs)
    sizes = ((rows, width), (outs, width), (outs,))
    x, weight, bias = (torch.randn(size, generator=generator) for size in sizes)
    weight *= width**-0.5
    return x.to(DEVICE, dtype), weight.to(DEVICE, dtype), bias.to(DEVICE, dtype)


def product(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, tile: Tile | None = None
) -> torch.Tensor:
    out = torch.full((x.shape[0], weight.shape[0]), torch.nan, dtype=x.dtype, device=DEVICE)
    return invariant_linear(x, weight, bias, out, tile)


def check(rows: int, outs: int, width: int, dtype: torch.dtype, tiles: tuple[Tile, ...]) -> None:
    x, weight, bias = make(rows, outs, width, dtype)
    right = product(x, weight, bias)
    exact = x.double() @ weight.double().T + bias.double()
    assert (right.double() - exact).norm() / exact.norm() < BOUND[dtype]
    for tile in tiles:
        assert torch.equal(product(x, weight, bias, tile), right), tile
    for first, last in ((0, 1), (rows - 1, rows), (3, 20), (rows // 3, rows)):
        assert torch.equal(product(x[first:last], weight, bias), right[first:last])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("outs", "width"), [(48, 64), (37, 72)])
def test_rows_and_tiles_change_no_bit(outs: int, width: int, dtype: torch.dtype) -> None:
    check(41, outs, width, dtype, SMALL)


def test_rows_of_a_wider_tensor() -> None:
    x, weight, _ = make(20, 32, 48, torch.float32)
    wide = torch.cat((x, torch.full_like(x, torch.nan)), 1)
    out = torch.full((20, 64), torch.nan, device=DEVICE)
    invariant_linear(wide[:, :48], weight, None, out[:, 16:48])
    assert torch.equal(out[:, 16:48], product(x, weight, None))
    assert out[:, :16].isnan().all()
    assert out[:, 48:].isnan().all()


def test_a_head_gives_float32() -> None:
    x, weight, bias = make(5, 32, 48, torch.float16)
    linear = InvariantLinear(weight, bias)
    found = float32_product(linear, x)
    assert found.dtype == torch.float32
    assert torch.equal(found.to(torch.float16), linear(x))
    exact = x.double() @ weight.double().T + bias.double()
    assert (found.double() - exact).norm() / exact.norm() < 1e-6


def test_few_rows_have_small_tiles() -> None:
    few, many = choose_tile(1, 4096, False, 132), choose_tile(4096, 4096, False, 132)
    assert few.rows < many.rows
    assert few.outs < many.outs


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("outs", "width"), [(6144, 4096), (960, 576), (1000, 200)])
def test_many_rows_on_a_gpu(outs: int, width: int, dtype: torch.dtype) -> None:
    from sgc_kernels.gpu import invariant_linear as module

    exact = dtype == torch.float32
    tiles = module._EXACT_TILES if exact else module._TILES
    check(1500, outs, width, dtype, tuple(tile for tile, _ in tiles))
    x, weight, bias = make(1500, outs, width, dtype)
    right = product(x, weight, bias)
    for rows in (1, 8, 63, 64, 65, 128, 129, 200, 512, 1023):
        assert torch.equal(product(x[:rows], weight, bias), right[:rows])
