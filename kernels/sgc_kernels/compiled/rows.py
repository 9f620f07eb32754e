"""What the compiled kernels do with one row of numbers: scale, merge, norm, turn, activate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from sgc_kernels.compiled.lanes import F32, I32, I64, VF32, Emitter
from sgc_kernels.compiled.target import Format
from sgc_kernels.compiled.translate import emitted


def each(e: Emitter, width: ir.Value, body: Callable[[ir.Value], None]) -> None:
    """`body(i)` for i = 0, 16, ... below `width`, which is a multiple of 16."""
    count = e.b.lshr(width, I64(4))
    with e.for_range(count) as index:
        body(e.b.shl(index, I64(4)))


def at(e: Emitter, base: ir.Value, index: ir.Value, num_bytes: int) -> ir.Value:
    return e.b.add(base, e.b.mul(index, I64(num_bytes)))


def make_scale_row(form: Format) -> Any:
    """`f(x, width, factor, out)`: float32 `x * factor`, rounded to the format."""

    @emitted
    def scale_row(
        e: Emitter, x: ir.Value, width: ir.Value, factor: ir.Value, out: ir.Value
    ) -> None:
        factor = e.splat(factor)

        def body(i: ir.Value) -> None:
            value = e.b.fmul(e.raw_load(VF32, at(e, x, i, 4), 4), factor)
            e.store(form, value, at(e, out, i, form.num_bytes))

        each(e, width, body)

    return scale_row


def _make_scaled(add: bool) -> Any:
    @emitted
    def scaled(e: Emitter, x: ir.Value, width: ir.Value, factor: ir.Value, out: ir.Value) -> None:
        factor = e.splat(factor)

        def body(i: ir.Value) -> None:
            place = at(e, out, i, 4)
            value = e.b.fmul(e.raw_load(VF32, at(e, x, i, 4), 4), factor)
            if add:
                value = e.b.fadd(value, e.raw_load(VF32, place, 4))
            e.raw_store(value, place, 4)

        each(e, width, body)

    return scaled


# `f(x, width, factor, out)`, float32: `out = x * factor` and `out += x * factor`.
set_scaled, add_scaled = _make_scaled(False), _make_scaled(True)


@emitted
def exp_scalar(e: Emitter, x: ir.Value) -> ir.Value:
    return e.b.extract_element(e.exp(e.splat(x)), I32(0))


def _store_weighted(
    e: Emitter,
    form: Format,
    x: ir.Value,
    factor: ir.Value,
    weight: ir.Value,
    out: ir.Value,
    width: ir.Value,
) -> None:
    """`out = x * factor * weight`."""
    size = form.num_bytes

    def apply(i: ir.Value) -> None:
        value = e.b.fmul(e.load(form, at(e, x, i, size)), factor)
        # Rounded before the weight is applied, as the models were trained.
        value = e.rounded(form, value)
        value = e.b.fmul(value, e.load(form, at(e, weight, i, size)))
        e.store(form, value, at(e, out, i, size))

    each(e, width, apply)


def make_norm_row(form: Format, add: bool) -> Any:
    """`f(x, residual, weight, out, width, eps)`: RMS norm of one row, see `sgc_kernels.norm`.

    With `add` the residual becomes `residual + x` (rounded) and is what is normalised.
    """

    @emitted
    def norm_row(
        e: Emitter,
        x: ir.Value,
        residual: ir.Value,
        weight: ir.Value,
        out: ir.Value,
        width: ir.Value,
        eps: ir.Value,
    ) -> None:
        size = form.num_bytes
        source = residual if add else x
        squares = e.variable(e.constant(0.0))

        def measure(i: ir.Value) -> None:
            value = e.load(form, at(e, source, i, size))
            if add:
                value = e.b.fadd(value, e.load(form, at(e, x, i, size)))
                e.store(form, value, at(e, residual, i, size))
                value = e.rounded(form, value)
            e.b.store(e.fma(value, value, e.b.load(squares)), squares)

        each(e, width, measure)
        mean = e.b.fdiv(e.reduce(e.b.load(squares)), e.b.sitofp(width, F32))
        root = e.intrinsic("sqrt.f32", F32, e.b.fadd(mean, eps))
        factor = e.splat(e.b.fdiv(F32(1.0), root))
        _store_weighted(e, form, source, factor, weight, out, width)

    return norm_row


def make_turn_row(form: Format) -> Any:
    """`f(x, cos, sin, out, half)`: rotary turn of one head by tables of 2 * half float32."""

    @emitted
    def turn_row(
        e: Emitter, x: ir.Value, cos: ir.Value, sin: ir.Value, out: ir.Value, half: ir.Value
    ) -> None:
        size = form.num_bytes

        def body(i: ir.Value) -> None:
            low, high = i, e.b.add(i, half)
            a, b = (e.load(form, at(e, x, place, size)) for place in (low, high))
            for place, own, other in ((low, a, b), (high, b, a)):
                c = e.load(form, at(e, cos, place, size))
                s = e.load(form, at(e, sin, place, size))
                value = e.fma(other, s, e.b.fmul(own, c))
                e.store(form, value, at(e, out, place, size))

        each(e, half, body)

    return turn_row


def make_silu_row(form: Format) -> Any:
    """`f(gate, up, out, width)`: `silu(gate) * up`."""

    @emitted
    def silu_row(e: Emitter, gate: ir.Value, up: ir.Value, out: ir.Value, width: ir.Value) -> None:
        size = form.num_bytes

        def body(i: ir.Value) -> None:
            g = e.load(form, at(e, gate, i, size))
            grown = e.exp(e.b.fsub(e.constant(0.0), g))
            value = e.b.fdiv(g, e.b.fadd(grown, e.constant(1.0)))
            value = e.rounded(form, value)
            value = e.b.fmul(value, e.load(form, at(e, up, i, size)))
            e.store(form, value, at(e, out, i, size))

        each(e, width, body)

    return silu_row


def make_widen_row(form: Format) -> Any:
    """`f(x, out, width)`: numbers of the format as float32."""

    @emitted
    def widen_row(e: Emitter, x: ir.Value, out: ir.Value, width: ir.Value) -> None:

        def body(i: ir.Value) -> None:
            value = e.load(form, at(e, x, i, form.num_bytes))
            e.raw_store(value, at(e, out, i, 4), 4)

        each(e, width, body)

    return widen_row
