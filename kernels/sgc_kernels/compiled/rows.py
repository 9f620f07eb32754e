"""What the compiled kernels do with one row of numbers: softmax, merge, norm, turn, activate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from sgc_kernels.compiled.lanes import F32, I32, I64, LANES, VF32, VI32, Emitter, Format

HIDDEN = -1e30  # score of what a query may not see; finite, so that differences are


def _each(builder: ir.IRBuilder, width: ir.Value, body: Callable[[ir.Value], None]) -> None:
    """`body(i)` for i = 0, 16, ... below `width`, which is a multiple of 16."""
    count = builder.lshr(width, I64(4))
    with cgutils.for_range(builder, count) as loop:
        body(builder.shl(loop.index, I64(4)))


def _at(e: Emitter, base: ir.Value, index: ir.Value, num_bytes: int) -> ir.Value:
    return e.b.add(base, e.b.mul(index, I64(num_bytes)))


def make_softmax_row() -> Any:
    """`f(scores, width, scale, low, high, state)`: one row of a block, in the running softmax.

    scores: `width` float32 (a multiple of 16), of which those in `[low, high)` are seen; they
    become weights. state: the row's maximum, sum, and the factor on what was added up before.
    Milakov and Gimelshein, Online normalizer calculation for softmax, 2018.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def softmax_row(tc: Any, scores: Any, width: Any, scale: Any, low: Any, high: Any, maximum: Any, total: Any, factor: Any) -> Any:  # fmt: skip  # noqa: E501
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            scores, width, scale, low, high, maximum, total, factor = args
            e = Emitter(builder)
            scale = e.splat(scale)
            low, high = (e.splat(builder.trunc(x, I32)) for x in (low, high))
            lanes = ir.Constant(VI32, list(range(LANES)))
            best = cgutils.alloca_once_value(builder, e.constant(HIDDEN))

            def mask(i: ir.Value) -> None:
                place = _at(e, scores, i, 4)
                column = builder.add(e.splat(builder.trunc(i, I32)), lanes)
                seen = builder.and_(
                    builder.icmp_signed(">=", column, low), builder.icmp_signed("<", column, high)
                )
                score = builder.fmul(e.raw_load(VF32, place, 4), scale)
                score = builder.select(seen, score, e.constant(HIDDEN))
                e.raw_store(score, place, 4)
                builder.store(e.maximum(builder.load(best), score), best)

            _each(builder, width, mask)
            before = e.raw_load(F32, maximum, 4)
            found = e.reduce(builder.load(best), maximum=True)
            now = builder.select(builder.fcmp_ordered(">", before, found), before, found)
            added = cgutils.alloca_once_value(builder, e.constant(0.0))
            # A row that has seen nothing yet: its weights must be 0 and not exp(0).
            base = builder.select(
                builder.fcmp_ordered(">", now, F32(HIDDEN / 2)), now, F32(HIDDEN / 4)
            )
            shift = e.splat(base)

            def weigh(i: ir.Value) -> None:
                place = _at(e, scores, i, 4)
                weight = e.exp(builder.fsub(e.raw_load(VF32, place, 4), shift))
                e.raw_store(weight, place, 4)
                builder.store(builder.fadd(builder.load(added), weight), added)

            _each(builder, width, weigh)
            change = builder.extract_element(e.exp(e.splat(builder.fsub(before, base))), I32(0))
            kept = builder.fmul(e.raw_load(F32, total, 4), change)
            e.raw_store(builder.fadd(kept, e.reduce(builder.load(added))), total, 4)
            e.raw_store(now, maximum, 4)
            e.raw_store(change, factor, 4)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, types.float32, i8, i8, i8, i8, i8), codegen

    return softmax_row


def make_scale_row(form: Format) -> Any:
    """`f(x, width, factor, out)`: float32 `x * factor`, rounded to the format."""

    @intrinsic  # type: ignore[untyped-decorator]
    def scale_row(tc: Any, x: Any, width: Any, factor: Any, out: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, width, factor, out = args
            e = Emitter(builder)
            factor = e.splat(factor)

            def body(i: ir.Value) -> None:
                value = builder.fmul(e.raw_load(VF32, _at(e, x, i, 4), 4), factor)
                e.store(form, value, _at(e, out, i, form.num_bytes))

            _each(builder, width, body)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, types.float32, i8), codegen

    return scale_row


def _make_scaled(add: bool) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def scaled(tc: Any, x: Any, width: Any, factor: Any, out: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, width, factor, out = args
            e = Emitter(builder)
            factor = e.splat(factor)

            def body(i: ir.Value) -> None:
                place = _at(e, out, i, 4)
                value = builder.fmul(e.raw_load(VF32, _at(e, x, i, 4), 4), factor)
                if add:
                    value = builder.fadd(value, e.raw_load(VF32, place, 4))
                e.raw_store(value, place, 4)

            _each(builder, width, body)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, types.float32, i8), codegen

    return scaled


# `f(x, width, factor, out)`, float32: `out = x * factor` and `out += x * factor`.
set_scaled, add_scaled = _make_scaled(False), _make_scaled(True)


@intrinsic  # type: ignore[untyped-decorator]
def exp_scalar(tc: Any, x: Any) -> Any:
    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
        e = Emitter(builder)
        return builder.extract_element(e.exp(e.splat(args[0])), I32(0))

    return types.float32(types.float32), codegen


def make_norm_row(form: Format, add: bool) -> Any:
    """`f(x, residual, weight, out, width, eps)`: RMS norm of one row, see `sgc_kernels.norm`.

    With `add` the residual becomes `residual + x` (rounded) and is what is normalised.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def norm_row(tc: Any, x: Any, residual: Any, weight: Any, out: Any, width: Any, eps: Any) -> Any:  # fmt: skip  # noqa: E501
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, residual, weight, out, width, eps = args
            e, size = Emitter(builder), form.num_bytes
            source = residual if add else x
            squares = cgutils.alloca_once_value(builder, e.constant(0.0))

            def measure(i: ir.Value) -> None:
                value = e.load(form, _at(e, source, i, size))
                if add:
                    value = builder.fadd(value, e.load(form, _at(e, x, i, size)))
                    e.store(form, value, _at(e, residual, i, size))
                    value = e.rounded(form, value)
                builder.store(e.fma(value, value, builder.load(squares)), squares)

            _each(builder, width, measure)
            mean = builder.fdiv(e.reduce(builder.load(squares)), builder.sitofp(width, F32))
            root = e.call("sqrt.f32", F32, builder.fadd(mean, eps))
            factor = e.splat(builder.fdiv(F32(1.0), root))

            def apply(i: ir.Value) -> None:
                value = builder.fmul(e.load(form, _at(e, source, i, size)), factor)
                # Rounded before the weight is applied, as the models were trained.
                value = e.rounded(form, value)
                value = builder.fmul(value, e.load(form, _at(e, weight, i, size)))
                e.store(form, value, _at(e, out, i, size))

            _each(builder, width, apply)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, i8, i8, i8, types.float32), codegen

    return norm_row


def make_turn_row(form: Format) -> Any:
    """`f(x, cos, sin, out, half)`: rotary turn of one head by tables of 2 * half float32."""

    @intrinsic  # type: ignore[untyped-decorator]
    def turn_row(tc: Any, x: Any, cos: Any, sin: Any, out: Any, half: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, cos, sin, out, half = args
            e, size = Emitter(builder), form.num_bytes

            def body(i: ir.Value) -> None:
                low, high = i, builder.add(i, half)
                a, b = (e.load(form, _at(e, x, place, size)) for place in (low, high))
                for place, own, other in ((low, a, b), (high, b, a)):
                    c = e.load(form, _at(e, cos, place, size))
                    s = e.load(form, _at(e, sin, place, size))
                    value = e.fma(other, s, builder.fmul(own, c))
                    e.store(form, value, _at(e, out, place, size))

            _each(builder, half, body)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, i8, i8, i8), codegen

    return turn_row


def make_silu_row(form: Format) -> Any:
    """`f(gate, up, out, width)`: `silu(gate) * up`."""

    @intrinsic  # type: ignore[untyped-decorator]
    def silu_row(tc: Any, gate: Any, up: Any, out: Any, width: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            gate, up, out, width = args
            e, size = Emitter(builder), form.num_bytes

            def body(i: ir.Value) -> None:
                g = e.load(form, _at(e, gate, i, size))
                grown = e.exp(builder.fsub(e.constant(0.0), g))
                value = builder.fdiv(g, builder.fadd(grown, e.constant(1.0)))
                value = e.rounded(form, value)
                value = builder.fmul(value, e.load(form, _at(e, up, i, size)))
                e.store(form, value, _at(e, out, i, size))

            _each(builder, width, body)
            return context.get_dummy_value()

        i8 = types.int64
        return types.void(i8, i8, i8, i8), codegen

    return silu_row


def make_copy_row(form: Format) -> Any:
    """`f(x, out, width)`."""

    @intrinsic  # type: ignore[untyped-decorator]
    def copy_row(tc: Any, x: Any, out: Any, width: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, out, width = args
            size = builder.mul(width, I64(form.num_bytes))
            cgutils.raw_memcpy(
                builder,
                builder.inttoptr(out, ir.IntType(8).as_pointer()),
                builder.inttoptr(x, ir.IntType(8).as_pointer()),
                size,
                1,
            )
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return copy_row


def make_widen_row(form: Format) -> Any:
    """`f(x, out, width)`: numbers of the format as float32."""

    @intrinsic  # type: ignore[untyped-decorator]
    def widen_row(tc: Any, x: Any, out: Any, width: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            x, out, width = args
            e = Emitter(builder)

            def body(i: ir.Value) -> None:
                value = e.load(form, _at(e, x, i, form.num_bytes))
                e.raw_store(value, _at(e, out, i, 4), 4)

            _each(builder, width, body)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), codegen

    return widen_row
