"""Products with weights that are kept in the form that is fastest where they are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

import torch

# Both caches of oneDNN in torch keep a kernel with its work memory for each number of rows, 1,024
# by default: SmolLM2-135M grew by 1.2 GB over 400 row counts. A step needs five products, again in
# every layer: with 16 it is as fast (none at all: 35 ms more a step) and grew by 50 MB.
_CACHED_KERNELS = "16"
_FIXED_ROWS = 16
_CACHE_SETTINGS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


class Linear(Protocol):
    """A weight matrix, in whatever form, with its bias."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """`x` `[T, in]`, T > 0, to `[T, out]` in the dtype of `x`, or float32 for a head."""
        ...


class PlainLinear:
    """The reference: `x @ weight.T + bias`; weight `[out, in]`, bias `[out]` or None."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight, self.bias)


def float32_product(linear: Linear, x: torch.Tensor) -> torch.Tensor:
    """`linear(x)` in float32; on a GPU without the rounding to 16 bits that makes logits tie."""
    in_float32: Callable[[torch.Tensor], torch.Tensor] | None = getattr(linear, "in_float32", None)
    if in_float32 is not None:
        return in_float32(x)
    if type(linear) is PlainLinear and linear.bias is None and x.device.type == "cuda":
        if x.dtype != torch.float32:
            return torch.mm(x, linear.weight.t(), out_dtype=torch.float32)
    return linear(x).to(torch.float32)


class PackedLinear:
    """The same for CPUs: the weight is laid out once as oneDNN's kernels read it.

    `torch.nn.functional.linear` does so anew at every call; with few rows that is half of its
    time (SmolLM2-135M on 2 cores of a Zen 4, all layers of a step at batch 1 / 8 / 32: bfloat16
    19 / 23 / 36 ms against 10 / 12 / 26 ms, float32 40 / 48 / 75 against 20 / 22 / 45).
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        _bound_caches()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
        self._bias = bias

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            x, self._weight, self._bias, "none", [], ""
        )
        return product


class FixedRowsLinear:
    """Products that are computed in blocks of 16 rows, the last one padded: libraries for CPUs
    choose their kernel by the number of rows, and here that is always the same.

    (SmolLM2-135M on 2 cores of a Zen 4, all layers of a step at batch 1 / 8 / 32 / 512, beside
    `PackedLinear`: bfloat16 19 / 19 / 29 / 403 ms against 9 / 12 / 22 / 266 ms, float32
    31 / 31 / 49 / 674 against 18 / 19 / 40 / 526; blocks of 32 rows 28 / 28 / 23 / 357.)
    """

    def __init__(self, product: Linear) -> None:
        self._product = product

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return by_fixed_rows(self._product, x)


def by_fixed_rows(product: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """`product(x)` for `x` `[T, in]`, in blocks of as many rows each."""
    rows = x.shape[0]
    padded = -(-rows // _FIXED_ROWS) * _FIXED_ROWS
    if padded != rows:
        x = torch.nn.functional.pad(x, (0, 0, 0, padded - rows))
    # Each block in memory of its own, so that it is aligned alike.
    blocks = [product(block.contiguous()) for block in torch.split(x, _FIXED_ROWS)]
    return torch.cat(blocks)[:rows] if len(blocks) > 1 else blocks[0][:rows]


def _bound_caches() -> None:
    """Keep the memory of oneDNN's kernels small; the user's own setting stands.

    torch reads these at its first product, so this does nothing where one was computed before.
    """
    for name in _CACHE_SETTINGS:
        os.environ.setdefault(name, _CACHED_KERNELS)


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether this build of torch has packed products for `dtype` on this machine's CPU."""
    if device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    ops = torch.ops.mkldnn
    if not hasattr(ops, "_reorder_linear_weight") or not hasattr(ops, "_linear_pointwise"):
        return False
    if dtype == torch.bfloat16:
        return bool(ops._is_mkldnn_bf16_supported())
    return dtype == torch.float32
