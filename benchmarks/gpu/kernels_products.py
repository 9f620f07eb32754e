"""Products of one row: a chain of layers without attention, and each product alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.kernel_bench import Case, KernelBench
from benchmarks.gpu.shapes import BYTES, LLAMA_8B, TINY
from sgc_kernels.gpu.activation import silu_mul
from sgc_kernels.gpu.gemv import fused_gated_linear, fused_linear
from sgc_kernels.gpu.norm import add_rms_norm, rms_norm

_LAYERS, _FEW = 8, 2
_EPS = 1e-5

Layer = dict[str, torch.Tensor]


def product_cases(bench: KernelBench) -> Iterator[Case]:
    """A chain of whole layers first, then its products one by one, then the head."""
    shape = TINY if bench.tiny else LLAMA_8B
    stack = [_layer(bench, shape) for _ in range(_FEW if bench.tiny else _LAYERS)]
    x = _random(bench, 1, shape.hidden)
    pdl = bench.device.type == "cuda"
    yield _chain(bench, stack, x, pdl)
    for name in ("qkv", "out", "gate_up", "down"):
        yield _product(bench, name, [layer[name] for layer in stack], pdl)
    if not bench.tiny:
        heads = [_random(bench, 49_152, shape.hidden) for _ in range(3)]
        yield _product(bench, "head of 49,152", heads, pdl)


def _chain(bench: KernelBench, stack: list[Layer], x: torch.Tensor, pdl: bool) -> Case:
    """Microseconds a layer."""
    moved = sum(w.numel() * BYTES for w in stack[0].values() if w.ndim == 2)
    case = Case("a layer's products, norms and gate", 1e6 * bench.ceilings.bytes_s(moved))
    heads = stack[0]["out"].shape[1]
    ours = bench.us([partial(_fused, stack, x, heads, pdl)]) / len(stack)
    plain = 0.0
    if not bench.compile_only:
        plain = bench.us([partial(_plain, stack, x, heads)]) / len(stack)
    found, expected = _fused(stack, x, heads, pdl), _plain(stack, x, heads)
    case.ours = {
        "us": round(ours, 2),
        "gb_s": round(moved / ours / 1e3),
        "difference": round(float((found - expected).norm() / expected.norm()), 5),
    }
    case.others["cuBLAS with the same small kernels"] = round(plain, 2)
    return case


def _product(bench: KernelBench, name: str, weights: list[torch.Tensor], pdl: bool) -> Case:
    moved = weights[0].numel() * BYTES
    case = Case(f"{name}, {moved / 1e6:.0f} MB", 1e6 * bench.ceilings.bytes_s(moved))
    x = _random(bench, 1, weights[0].shape[1])
    multiply = fused_gated_linear if name == "gate_up" else fused_linear
    us = bench.us([partial(multiply, x, weight, pdl=pdl) for weight in weights])
    case.ours = {"us": round(us, 2), "gb_s": round(moved / us / 1e3)}
    if not bench.compile_only:
        linear = torch.nn.functional.linear
        case.others["cuBLAS"] = round(bench.us([partial(linear, x, w) for w in weights]), 2)
    return case


def _fused(stack: list[Layer], x: torch.Tensor, heads: int, pdl: bool) -> torch.Tensor:
    """Separate buffers throughout, so that kernels may begin while the one before runs."""
    for layer in stack:
        qkv = fused_linear(x, layer["qkv"], norm=(layer["norm"], _EPS), pdl=pdl)
        middle = fused_linear(qkv[:, :heads], layer["out"], residual=x, pdl=pdl)
        gate = fused_gated_linear(middle, layer["gate_up"], norm=(layer["norm"], _EPS), pdl=pdl)
        x = fused_linear(gate, layer["down"], residual=middle, pdl=pdl)
    return x


def _plain(stack: list[Layer], x: torch.Tensor, heads: int) -> torch.Tensor:
    linear, residual = torch.nn.functional.linear, x.clone()
    y: torch.Tensor = rms_norm(residual, stack[0]["norm"], _EPS)
    for i, layer in enumerate(stack):
        if i:
            y = add_rms_norm(y, residual, layer["norm"], _EPS)
        y = linear(linear(y, layer["qkv"])[:, :heads], layer["out"])
        y = add_rms_norm(y, residual, layer["norm"], _EPS)
        y = linear(silu_mul(linear(y, layer["gate_up"])), layer["down"])
    total: torch.Tensor = residual.add_(y)
    return total


def _layer(bench: KernelBench, shape: Any) -> Layer:
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        "qkv": _random(bench, q + 2 * kv, shape.hidden),
        "out": _random(bench, shape.hidden, q),
        "gate_up": _random(bench, 2 * shape.inner, shape.hidden),
        "down": _random(bench, shape.hidden, shape.inner),
        "norm": torch.ones(shape.hidden, dtype=bench.dtype, device=bench.device),
    }


def _random(bench: KernelBench, rows: int, columns: int) -> torch.Tensor:
    numbers = torch.randn(rows, columns, dtype=bench.dtype, device=bench.device)
    return numbers.mul_(1.0 / math.sqrt(columns))
