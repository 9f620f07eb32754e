"""What a layer does between its products, compiled: norms, rotary turn, KV write, activation.

Every kernel is `f(job)`, the address of a block of `job_block`; it takes chunks of rows until none
is left, whoever takes the others.
"""

from __future__ import annotations

from collections.abc import Callable

from sgc_kernels.compiled.job_block import (
    CHUNK,
    COS,
    EPS,
    K_CACHE,
    KV_HEADS,
    OUT,
    Q_HEADS,
    RESIDUAL,
    ROWS,
    SIN,
    SLOTS,
    STRIDE,
    TAKEN,
    V_CACHE,
    WEIGHT,
    WIDTH,
    X,
)
from sgc_kernels.compiled.memory import copy, load_float, load_int, take_ticket
from sgc_kernels.compiled.rows import (
    make_norm_row,
    make_silu_row,
    make_turn_row,
)
from sgc_kernels.compiled.target import Format
from sgc_kernels.compiled.translate import kernel


@kernel
def _take(job: int) -> tuple[int, int]:
    """The next chunk's rows, `[first, last)`; none when first is not below last."""
    first = take_ticket(job + TAKEN) * load_int(job + CHUNK)
    return first, min(first + load_int(job + CHUNK), load_int(job + ROWS))


def make_add_norm(form: Format) -> Callable[[int], None]:
    """Adds x to the residual and normalises the sum into out."""
    row, size = make_norm_row(form, add=True), form.num_bytes

    def add_norm(job: int) -> None:
        x, residual, out = load_int(job + X), load_int(job + RESIDUAL), load_int(job + OUT)
        weight, width, eps = load_int(job + WEIGHT), load_int(job + WIDTH), load_float(job + EPS)
        first, last = _take(job)
        while first < last:
            for i in range(first, last):
                at = i * width * size
                row(x + at, residual + at, weight, out + at, width, eps)
            first, last = _take(job)

    return add_norm


def make_norm(form: Format) -> Callable[[int], None]:
    """Normalises x, whose rows lie `STRIDE` apart, into out."""
    row, size = make_norm_row(form, add=False), form.num_bytes

    def norm(job: int) -> None:
        x, stride, out = load_int(job + X), load_int(job + STRIDE), load_int(job + OUT)
        weight, width, eps = load_int(job + WEIGHT), load_int(job + WIDTH), load_float(job + EPS)
        first, last = _take(job)
        while first < last:
            for i in range(first, last):
                row(x + i * stride, 0, weight, out + i * width * size, width, eps)
            first, last = _take(job)

    return norm


def make_silu_mul(form: Format) -> Callable[[int], None]:
    """Rows of gate and up, `WIDTH` each, into out."""
    row, size = make_silu_row(form), form.num_bytes

    def silu_mul(job: int) -> None:
        x, out, width = load_int(job + X), load_int(job + OUT), load_int(job + WIDTH)
        first, last = _take(job)
        while first < last:
            for i in range(first, last):
                gate = x + i * 2 * width * size
                row(gate, gate + width * size, out + i * width * size, width)
            first, last = _take(job)

    return silu_mul


def make_turn_store(form: Format, head_dim: int) -> Callable[[int], None]:
    """Turns queries into out and keys into their slots, and copies values into theirs."""
    turn = make_turn_row(form)
    half, head_bytes = head_dim // 2, head_dim * form.num_bytes

    @kernel
    def turn_token(job: int, t: int) -> None:
        q_heads, kv_heads = load_int(job + Q_HEADS), load_int(job + KV_HEADS)
        c, s = load_int(job + COS) + t * head_bytes, load_int(job + SIN) + t * head_bytes
        heads = load_int(job + X) + t * (q_heads + 2 * kv_heads) * head_bytes
        q = load_int(job + OUT) + t * q_heads * head_bytes
        for h in range(q_heads):
            turn(heads + h * head_bytes, c, s, q + h * head_bytes, half)
        keys = heads + q_heads * head_bytes
        slot = load_int(load_int(job + SLOTS) + 8 * t) * kv_heads * head_bytes
        for h in range(kv_heads):
            turn(keys + h * head_bytes, c, s, load_int(job + K_CACHE) + slot + h * head_bytes, half)
        values = keys + kv_heads * head_bytes
        copy(values, load_int(job + V_CACHE) + slot, kv_heads * head_bytes)

    def turn_store(job: int) -> None:
        first, last = _take(job)
        while first < last:
            for t in range(first, last):
                turn_token(job, t)
            first, last = _take(job)

    return turn_store
