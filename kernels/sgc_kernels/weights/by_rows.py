"""The choice between two forms of one weight by the number of rows, measured where it runs."""

from __future__ import annotations

import functools
import time

import torch

from sgc_kernels.compiled.target import host_target
from sgc_kernels.linear import Linear, PackedLinear
from sgc_kernels.weights.grouped import GroupedLinear, pack, quantize

_SIZE = (768, 768)  # a product of few milliseconds that fits the second cache
_ROWS = (16, 32, 64, 128, 256)
_GAIN = 1.25  # below it a second copy of the weights does not pay
_TRIALS = 4


class ByRowsLinear:
    """`few` up to `limit` rows of x, `many` above: their results differ by rounding."""

    def __init__(self, few: Linear, many: Linear, limit: int) -> None:
        self._few = few
        self._many = many
        self._limit = limit

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return self._few(x) if x.shape[0] <= self._limit else self._many(x)


@functools.cache
def grouped_rows(bits: int, threads: int) -> int | None:
    """Rows up to which a grouped weight is the faster one; None: it always is, or nearly.

    Dense products gain much where the CPU has matrix units (AMX): there the limit is measured once
    a process, on a product of its own, best of four runs for each number of rows. Elsewhere both
    forms end at the same dot products: on 2 cores of a Zen 4 dense takes 3 times as long at 1
    row, as long at 64 to 128, and gains 8 % at 512, for which a second copy does not pay.
    """
    return _measured(bits) if _has_matrix_units() else None


def _has_matrix_units() -> bool:
    return "amx-bf16" in host_target().features


def _measured(bits: int) -> int | None:
    weight = torch.linspace(-1, 1, _SIZE[0] * _SIZE[1]).view(_SIZE).to(torch.bfloat16)
    grouped, dense = GroupedLinear(pack(quantize(weight, bits))), PackedLinear(weight)

    def gains(rows: int) -> bool:
        x = torch.ones(rows, _SIZE[1], dtype=torch.bfloat16)
        return _seconds(grouped, x) > _GAIN * _seconds(dense, x)

    if not gains(_ROWS[-1]):  # the more rows, the more dense gains
        return None
    return next((rows // 2 for rows in _ROWS if gains(rows)), _ROWS[-1])


def _seconds(linear: Linear, x: torch.Tensor) -> float:
    best = float("inf")
    with torch.inference_mode():
        for _ in range(_TRIALS):
            begin = time.perf_counter()
            linear(x)
            best = min(best, time.perf_counter() - begin)
    return best
