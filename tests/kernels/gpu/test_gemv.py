"""Products for few rows on a GPU against the same in float64: in the interpreter where there is
none."""

from __future__ import annotations

import os
import random as rng

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels import fused_linear
from sgc_kernels.gpu import gemv

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TOLERANCE = {torch.float32: 5e-6, torch.float16: 2e-3}
DTYPES = sorted(TOLERANCE, key=str)
SHAPES = [(48, 64), (10, 96), (33, 1500), (7, 72)]


def random(*shape: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return numbers.to(DEVICE, dtype)


def check(out: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
    assert out.dtype == dtype
    error = (out.double() - expected).norm() / expected.norm()
    assert float(error) < TOLERANCE[dtype]


def exact(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if tensor is None else tensor.double() for tensor in tensors]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("around", ["", "bias", "norm", "residual", "bias norm residual"])
def test_fused_linear(shape: tuple[int, int], rows: int, around: str, dtype: torch.dtype) -> None:
    weight, x = random(*shape, dtype=dtype, seed=1), random(rows, shape[1], dtype=dtype)
    bias = random(shape[0], dtype=dtype, seed=2) if "bias" in around else None
    scale = random(shape[1], dtype=dtype, seed=3) if "norm" in around else None
    residual = random(rows, shape[0], dtype=dtype, seed=4) if "residual" in around else None
    norm = None if scale is None else (scale, 1e-5)
    out = gemv.fused_linear(x, weight, bias, norm=norm, residual=residual)
    x64, weight64, bias64, scale64, residual64 = exact(x, weight, bias, scale, residual)
    assert x64 is not None
    if scale64 is not None:
        x64 = x64 / (x64.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale64
    assert weight64 is not None
    expected = torch.nn.functional.linear(x64, weight64, bias64)
    check(out, expected if residual64 is None else expected + residual64, dtype)
    same = fused_linear.fused_linear(x, weight, bias, norm=norm, residual=residual)
    check(same, out.double(), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("normed", [False, True])
def test_fused_gated_linear(
    shape: tuple[int, int], rows: int, normed: bool, dtype: torch.dtype
) -> None:
    weight = random(2 * shape[0], shape[1], dtype=dtype, seed=1) / shape[1] ** 0.5
    x = random(rows, shape[1], dtype=dtype)
    scale = random(shape[1], dtype=dtype, seed=3)
    norm = (scale, 1e-5) if normed else None
    out = gemv.fused_gated_linear(x, weight, norm=norm)
    x64 = x.double()
    if normed:
        x64 = x64 / (x64.square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale.double()
    gate, up = (x64 @ weight.double().T).chunk(2, dim=-1)
    check(out, gate * torch.sigmoid(gate) * up, dtype)
    check(fused_linear.fused_gated_linear(x, weight, norm=norm), out.double(), dtype)


@pytest.mark.parametrize("tile", [gemv.Tile(1, 4), gemv.Tile(2, 4), gemv.Tile(8, 4)])
def test_every_tile_gives_the_same(tile: gemv.Tile) -> None:
    weight = random(30, 64, dtype=torch.float32)
    x = random(2, 64, dtype=torch.float32, seed=1)
    check(gemv.fused_linear(x, weight, tile=tile), x.double() @ weight.double().T, torch.float32)


def test_a_result_of_another_number_format_in_memory_that_is_given() -> None:
    weight = random(12, 64, dtype=torch.float16)
    wide = random(2, 80, dtype=torch.float16, seed=1)
    room = torch.full((2, 20), torch.nan, device=DEVICE)
    out = gemv.fused_linear(wide[:, 16:], weight, out=room[:, :12])
    assert out.data_ptr() == room.data_ptr()
    check(room[:, :12], wide[:, 16:].double() @ weight.double().T, torch.float32)
    assert bool(room[:, 12:].isnan().all())


def test_the_residual_may_take_the_result() -> None:
    weight, x = random(30, 64, dtype=torch.float32), random(3, 64, dtype=torch.float32, seed=1)
    residual = random(3, 30, dtype=torch.float32, seed=2)
    expected = residual.double() + x.double() @ weight.double().T
    assert gemv.fused_linear(x, weight, residual=residual, out=residual) is residual
    check(residual, expected, torch.float32)


def test_what_fits() -> None:
    assert gemv.fits(4, 14_336)
    assert not gemv.fits(5, 64)
    assert not gemv.fits(0, 64)
    assert not gemv.fits(1, 40_000)
    for width in (64, 576, 1536, 4096, 8192, 14_336, 32_768):
        for gated in (False, True):
            tile = gemv.choose_tile(width, gated)
            assert tile.rows * (1 + gated) * width <= 2**16


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(40))
def test_random_shapes_in_bfloat16(seed: int) -> None:
    pick, dtype = rng.Random(seed), torch.bfloat16
    rows, height = pick.randint(1, 4), pick.randint(1, 3000)
    width = pick.choice([64, 576, 1536, 4096, 14_336, pick.randint(1, 20_000)])
    weight, x = random(height, width, dtype=dtype, seed=seed), random(rows, width, dtype=dtype)
    scale, residual = random(width, dtype=dtype), random(rows, height, dtype=dtype)
    out = torch.full((rows, height), torch.nan, dtype=dtype, device=DEVICE)
    gemv.fused_linear(
        x, weight, norm=(scale, 1e-5), residual=residual, out=out, pdl=pick.random() < 0.5
    )
    x64 = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * scale.double()
    expected = residual.double() + x64 @ weight.double().T
    assert float((out.double() - expected).norm() / expected.norm()) < 5e-3


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [1, 4])
def test_a_chain_with_dependent_launches_keeps_its_order(rows: int) -> None:
    dtype, width, inner = torch.bfloat16, 1024, 3072
    gate_up = random(2 * inner, width, dtype=dtype) / width**0.5
    down, scale = random(width, inner, dtype=dtype) / inner**0.5, random(width, dtype=dtype)
    start = random(rows, width, dtype=dtype)

    def chain(pdl: bool) -> torch.Tensor:
        hidden = start.clone()
        for _ in range(20):
            gated = gemv.fused_gated_linear(hidden, gate_up, norm=(scale, 1e-5), pdl=pdl)
            gemv.fused_linear(gated, down, residual=hidden, out=hidden, pdl=pdl)
        return hidden

    expected = chain(False)
    assert all(torch.equal(chain(True), expected) for _ in range(10))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = chain(True)
    for _ in range(20):
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out, expected)
