"""Products on a GPU whose rows do not depend on how many rows are computed together.

Libraries choose another kernel, another split of the sum, for another number of rows. Here every
element is one float32 accumulator that goes through the columns in order, in the steps of the
matrix unit; tiles differ by the number of rows, and only in which elements a program holds. Rows of
`x` are always the long side of the unit's instruction (64 at least in 16 bits), padded with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from sgc_kernels.gpu.device import multiprocessors

_TOGETHER = 8  # tiles of rows whose programs run side by side, so that weights are read from cache


@dataclass(frozen=True, slots=True)
class Tile:
    """What a program computes: `rows` of x by `outs` rows of the weight, `depth` columns a step."""

    rows: int
    outs: int
    depth: int
    warps: int
    stages: int


# With the time of a program, which has a multiprocessor to itself: ns a column (bfloat16, H200).
_TILES = (
    (Tile(128, 256, 64, 8, 4), 12.4),
    (Tile(128, 128, 64, 8, 4), 7.3),
    (Tile(64, 128, 64, 4, 5), 5.0),
    (Tile(64, 64, 128, 4, 5), 3.7),
    (Tile(64, 32, 64, 4, 12), 3.0),
)
# float32, outside the matrix unit
_EXACT_TILES = ((Tile(64, 64, 32, 4, 3), 2.0), (Tile(16, 64, 32, 4, 4), 1.0))


@triton.jit(do_not_specialize=["rows"])
def _product(
    x: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    x_stride: tl.tensor,
    out_stride: tl.tensor,
    OUTS: tl.constexpr,
    WIDTH: tl.constexpr,
    ROW_TILE: tl.constexpr,
    OUT_TILE: tl.constexpr,
    DEPTH: tl.constexpr,
    TOGETHER: tl.constexpr,
    BIAS: tl.constexpr,
    PRECISION: tl.constexpr,
    STAGES: tl.constexpr,
) -> None:
    """Program: TOGETHER tiles of rows go through the tiles of the weight side by side."""
    program = tl.program_id(0)
    row_tiles = tl.cdiv(rows, ROW_TILE)
    out_tiles: tl.constexpr = (OUTS + OUT_TILE - 1) // OUT_TILE
    group = program // (TOGETHER * out_tiles)
    first = group * TOGETHER
    size = tl.minimum(row_tiles - first, TOGETHER)
    row_tile = first + program % (TOGETHER * out_tiles) % size
    out_tile = program % (TOGETHER * out_tiles) // size

    row = row_tile * ROW_TILE + tl.arange(0, ROW_TILE)
    column = out_tile * OUT_TILE + tl.arange(0, OUT_TILE)
    depth = tl.arange(0, DEPTH)
    live = row < rows
    inside = column < OUTS
    x_at = x + row.to(tl.int64)[:, None] * x_stride + depth[None, :]
    read = tl.minimum(column, OUTS - 1) if OUTS % OUT_TILE != 0 else column
    weight_at = weight + read.to(tl.int64)[:, None] * WIDTH + depth[None, :]
    acc = tl.zeros((ROW_TILE, OUT_TILE), tl.float32)
    for at in tl.range(0, WIDTH, DEPTH, num_stages=STAGES):
        if WIDTH % DEPTH == 0:
            a = tl.load(x_at + at, mask=live[:, None], other=0.0)
            b = tl.load(weight_at + at)
        else:
            here = (at + depth < WIDTH)[None, :]
            a = tl.load(x_at + at, mask=live[:, None] & here, other=0.0)
            b = tl.load(weight_at + at, mask=here, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision=PRECISION)
    if BIAS:
        acc += tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    place = out + row.to(tl.int64)[:, None] * out_stride + column[None, :]
    tl.store(place, acc.to(out.dtype.element_ty), mask=live[:, None] & inside[None, :])


class InvariantLinear:
    """`x @ weight.T + bias`, bit for bit the same for a row whatever stands beside it.

    Sums are float32 and rounded once, behind the bias. float32 is multiplied exactly (no TF32).
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        assert weight.stride(1) == 1, "rows of the weight lie in one piece"
        self.weight = weight.contiguous()
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._multiply(x, x.dtype)

    def in_float32(self, x: torch.Tensor) -> torch.Tensor:
        """The sums as they are."""
        return self._multiply(x, torch.float32)

    def _multiply(self, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        out = torch.empty((x.shape[0], self.weight.shape[0]), dtype=dtype, device=x.device)
        return invariant_linear(x, self.weight, self.bias, out)


def invariant_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    tile: Tile | None = None,
) -> torch.Tensor:
    """The product of `InvariantLinear`; all tiles give the same bits.

    Args:
        x: `[T, in]`, T > 0; rows may lie apart.
        weight: `[out, in]` contiguous, in the format of x.
        bias: `[out]`.
        out: `[T, out]`, in the format of x or float32; rows may lie apart.
        tile: None: the one for this number of rows.
    """
    assert x.stride(1) == 1, "rows of x lie in one piece"
    assert out.stride(1) == 1, "rows of the result lie in one piece"
    assert x.shape[1] == weight.shape[1], "x is as wide as the weight"
    assert out.shape == (x.shape[0], weight.shape[0]), "a row of the result for each row of x"
    assert x.dtype == weight.dtype, "x and weight have one format"
    rows, outs = out.shape
    exact = x.dtype == torch.float32
    tile = tile or choose_tile(rows, outs, exact, multiprocessors(x.device))
    grid = (triton.cdiv(rows, tile.rows) * triton.cdiv(outs, tile.outs),)
    _product[grid](
        x,
        weight,
        bias,
        out,
        rows,
        x.stride(0),
        out.stride(0),
        OUTS=outs,
        WIDTH=x.shape[1],
        ROW_TILE=tile.rows,
        OUT_TILE=tile.outs,
        DEPTH=tile.depth,
        TOGETHER=_TOGETHER,
        BIAS=bias is not None,
        PRECISION="ieee" if exact else "tf32",
        STAGES=tile.stages,
        num_warps=tile.warps,
    )
    return out


def choose_tile(rows: int, outs: int, exact: bool, multiprocessors: int) -> Tile:
    """The tile whose programs are done first, if each multiprocessor has one at a time."""

    def time(form: tuple[Tile, float]) -> float:
        tile, cost = form
        programs = -(-rows // tile.rows) * -(-outs // tile.outs)
        return -(-programs // multiprocessors) * cost

    return min(_EXACT_TILES if exact else _TILES, key=time)[0]
