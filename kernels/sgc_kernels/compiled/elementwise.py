"""What a layer does between its products, compiled: norms, rotary turn, KV write, activation."""

from __future__ import annotations

from collections.abc import Callable

from sgc_kernels.compiled.memory import copy, load_int
from sgc_kernels.compiled.rows import (
    make_norm_row,
    make_silu_row,
    make_turn_row,
)
from sgc_kernels.compiled.target import Format

Norm = Callable[[int, int, int, int, int, int, float], None]


def make_add_norm(form: Format) -> Norm:
    """`f(x, residual, weight, out, rows, width, eps)`."""
    row, size = make_norm_row(form, add=True), form.num_bytes

    def add_norm(
        x: int, residual: int, weight: int, out: int, rows: int, width: int, eps: float
    ) -> None:
        for i in range(rows):
            at = i * width * size
            row(x + at, residual + at, weight, out + at, width, eps)

    return add_norm


def make_norm(form: Format) -> Norm:
    """`f(x, x_stride, weight, out, rows, width, eps)`; the stride in bytes."""
    row, size = make_norm_row(form, add=False), form.num_bytes

    def norm(x: int, stride: int, weight: int, out: int, rows: int, width: int, eps: float) -> None:
        for i in range(rows):
            row(x + i * stride, 0, weight, out + i * width * size, width, eps)

    return norm


def make_silu_mul(form: Format) -> Callable[[int, int, int, int], None]:
    """`f(gate_up, out, rows, width)`."""
    row, size = make_silu_row(form), form.num_bytes

    def silu_mul(gate_up: int, out: int, rows: int, width: int) -> None:
        for i in range(rows):
            gate = gate_up + i * 2 * width * size
            row(gate, gate + width * size, out + i * width * size, width)

    return silu_mul


def make_turn_store(
    form: Format, head_dim: int
) -> Callable[[int, int, int, int, int, int, int, int, int, int], None]:
    """`f(qkv, cos, sin, slots, q, k_cache, v_cache, tokens, q_heads, kv_heads)`."""
    turn = make_turn_row(form)
    half, head_bytes = head_dim // 2, head_dim * form.num_bytes

    def turn_store(
        qkv: int,
        cos: int,
        sin: int,
        slots: int,
        q: int,
        k_cache: int,
        v_cache: int,
        tokens: int,
        q_heads: int,
        kv_heads: int,
    ) -> None:
        for t in range(tokens):
            c, s = cos + t * head_bytes, sin + t * head_bytes
            heads = qkv + t * (q_heads + 2 * kv_heads) * head_bytes
            for h in range(q_heads):
                turn(heads + h * head_bytes, c, s, q + (t * q_heads + h) * head_bytes, half)
            keys = heads + q_heads * head_bytes
            slot = load_int(slots + 8 * t) * kv_heads * head_bytes
            for h in range(kv_heads):
                turn(keys + h * head_bytes, c, s, k_cache + slot + h * head_bytes, half)
            copy(keys + kv_heads * head_bytes, v_cache + slot, kv_heads * head_bytes)

    return turn_store
