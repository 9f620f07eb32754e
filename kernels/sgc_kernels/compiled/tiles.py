"""The inner loops of attention: products of a few queries, or of many, with a run of keys.

`few` loops read keys and values where they lie, each once for all queries (decode is bound by
that reading). `many` loops are matrix products over blocks that are packed once for all queries
(prefill, and decode over a shared prefix). Addresses and counts are int64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from sgc_kernels.compiled.lanes import F32, I32, I64, LANES, VF32, VI32, Emitter, Format
from sgc_kernels.compiled.shapes import KEYS, TILE_COLUMNS, TILE_ROWS, has_pair_products


def _signature(count: int) -> Any:
    return types.void(*[types.int64] * count)


def _nothing(context: Any) -> ir.Value:
    return context.get_dummy_value()


def make_scores_few(form: Format, head_dim: int, rows: int) -> Any:
    """`f(q, keys, stride, slots, last, out, out_stride)`: products of `rows` queries with 16 keys.

    q: `[rows, head_dim]` in `form`; slot numbers from `slots` on, of which the last valid one is
    number `last` (it is read again instead of those behind). Writes 16 float32 a row.
    """
    pairs = has_pair_products(form)
    width = 2 * LANES if pairs else LANES
    chunks = head_dim // width

    @intrinsic  # type: ignore[untyped-decorator]
    def scores_few(tc: Any, q: Any, keys: Any, stride: Any, slots: Any, last: Any, out: Any, gap: Any) -> Any:  # fmt: skip  # noqa: E501
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            q, keys, stride, slots, last, out, gap = args
            e = Emitter(builder)

            def load(address: ir.Value, chunk: int) -> ir.Value:
                address = e.offset(address, chunk * width * form.num_bytes)
                return e.raw_load(VI32, address) if pairs else e.load(form, address)

            queries = [
                [load(e.offset(q, r * head_dim * form.num_bytes), c) for c in range(chunks)]
                for r in range(rows)
            ]
            open_runs: list[list[tuple[int, ir.Value]]] = [[] for _ in range(rows)]
            for j in range(LANES):
                place = builder.select(builder.icmp_signed("<", I64(j), last), I64(j), last)
                slot = e.raw_load(I64, builder.add(slots, builder.shl(place, I64(3))), 8)
                key = builder.add(keys, builder.mul(slot, stride))
                parts = [load(key, c) for c in range(chunks)]
                for r in range(rows):
                    acc = ir.Constant(VF32, [0.0] * LANES)
                    for part, query in zip(parts, queries[r], strict=True):
                        acc = e.dot_pairs(acc, part, query) if pairs else e.fma(part, query, acc)
                    open_width = LANES
                    while open_runs[r] and open_runs[r][-1][0] == open_width:
                        acc = e.fold(open_runs[r].pop()[1], acc, open_width)
                        open_width //= 2
                    open_runs[r].append((open_width, acc))
            for r in range(rows):
                target = builder.add(out, builder.mul(gap, I64(r)))
                e.raw_store(open_runs[r][0][1], target, 4)
            return _nothing(context)

        return _signature(7), codegen

    return scores_few


def make_values_few(form: Format, head_dim: int, rows: int) -> Any:
    """`f(p, p_stride, values, stride, slots, count, acc, factors)`:
    `acc = acc * factor of the row + p @ values`; acc `[rows, head_dim]` float32.
    """
    columns = max(1, min(head_dim // LANES, 16 // rows))

    @intrinsic  # type: ignore[untyped-decorator]
    def values_few(tc: Any, p: Any, gap: Any, values: Any, stride: Any, slots: Any, count: Any, acc: Any, factors: Any) -> Any:  # fmt: skip  # noqa: E501
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            p, gap, values, stride, slots, count, acc, factors = args
            e = Emitter(builder)
            total = head_dim // LANES
            for first in range(0, total, columns):
                block = range(first, min(total, first + columns))
                cells = _load_accumulators(e, acc, factors, rows, head_dim * 4, block)
                with cgutils.for_range(builder, count) as loop:
                    j = loop.index
                    slot = e.raw_load(I64, builder.add(slots, builder.shl(j, I64(3))), 8)
                    value = builder.add(values, builder.mul(slot, stride))
                    parts = [
                        e.load(form, e.offset(value, c * LANES * form.num_bytes)) for c in block
                    ]
                    for r in range(rows):
                        row = builder.add(p, builder.mul(gap, I64(r)))
                        weight = e.raw_load(F32, builder.add(row, builder.shl(j, I64(2))), 4)
                        _accumulate(e, cells[r], e.splat(weight), parts)
                _store_accumulators(e, acc, cells, head_dim * 4, block)
            return _nothing(context)

        return _signature(8), codegen

    return values_few


def make_product(steps: int | None, columns: int, pairs: bool) -> Any:
    """`f(a, a_stride, b, out, out_stride, factors, count)`: TILE_ROWS rows of a matrix product.

    `b` is `[steps, columns]` packed; with `pairs` a and b hold bfloat16 pairs in 32 bits, else
    float32. `factors` is 0, or the address of a factor a row on what stands in `out` before.
    With `steps` None, `count` says how many there are.
    """
    total = columns // LANES

    @intrinsic  # type: ignore[untyped-decorator]
    def product(tc: Any, a: Any, a_gap: Any, b: Any, out: Any, out_gap: Any, factors: Any, count: Any) -> Any:  # fmt: skip  # noqa: E501
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            a, a_gap, b, out, out_gap, factors, count = args
            e = Emitter(builder)
            end = I64(steps) if steps is not None else count
            kind = I32 if pairs else F32
            for first in range(0, total, TILE_COLUMNS):
                block = range(first, min(total, first + TILE_COLUMNS))
                keep = None if steps is not None else factors
                cells = _load_accumulators(e, out, keep, TILE_ROWS, out_gap, block)
                with cgutils.for_range(builder, end) as loop:
                    k4 = builder.shl(loop.index, I64(2))
                    line = builder.add(b, builder.mul(k4, I64(columns)))
                    vector = VI32 if pairs else VF32
                    parts = [e.raw_load(vector, e.offset(line, c * LANES * 4), 4) for c in block]
                    for r in range(TILE_ROWS):
                        row = builder.add(a, builder.mul(a_gap, I64(r)))
                        factor = e.splat(e.raw_load(kind, builder.add(row, k4), 4))
                        _accumulate(e, cells[r], factor, parts, pairs)
                _store_accumulators(e, out, cells, out_gap, block)
            return _nothing(context)

        return _signature(7), codegen

    return product


Cells = list[list[ir.Value]]  # addresses of accumulators, by row and column


def _place(e: Emitter, base: ir.Value, row: int, gap: int | ir.Value, column: int) -> ir.Value:
    if isinstance(gap, int):
        return e.offset(base, row * gap + column * LANES * 4)
    return e.offset(e.b.add(base, e.b.mul(gap, I64(row))), column * LANES * 4)


def _load_accumulators(
    e: Emitter,
    base: ir.Value,
    factors: ir.Value | None,
    rows: int,
    gap: int | ir.Value,
    columns: Sequence[int],
) -> Cells:
    cells = [[cgutils.alloca_once(e.b, VF32) for _ in columns] for _ in range(rows)]
    for r in range(rows):
        if factors is not None:
            factor = e.splat(e.raw_load(F32, e.offset(factors, 4 * r), 4))
        for cell, column in zip(cells[r], columns, strict=True):
            start = ir.Constant(VF32, [0.0] * LANES)
            if factors is not None:
                start = e.b.fmul(e.raw_load(VF32, _place(e, base, r, gap, column), 4), factor)
            e.b.store(start, cell)
    return cells


def _accumulate(
    e: Emitter,
    cells: Sequence[ir.Value],
    factor: ir.Value,
    parts: Sequence[ir.Value],
    pairs: bool = False,
) -> None:
    for cell, part in zip(cells, parts, strict=True):
        before = e.b.load(cell)
        after = e.dot_pairs(before, part, factor) if pairs else e.fma(part, factor, before)
        e.b.store(after, cell)


def _store_accumulators(
    e: Emitter, base: ir.Value, cells: Cells, gap: int | ir.Value, columns: Sequence[int]
) -> None:
    for r, row in enumerate(cells):
        for cell, column in zip(row, columns, strict=True):
            e.raw_store(e.b.load(cell), _place(e, base, r, gap, column), 4)


def make_pack_keys(form: Format, head_dim: int) -> Any:
    """`f(keys, stride, slots, last, out)`: 16 keys as columns of a packed block of `KEYS`.

    Rows of the block are dimensions (float32), or pairs of them where pairs are multiplied.
    """
    pairs = has_pair_products(form)
    lines = head_dim // 2 if pairs else head_dim

    @intrinsic  # type: ignore[untyped-decorator]
    def pack_keys(tc: Any, keys: Any, stride: Any, slots: Any, last: Any, out: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            keys, stride, slots, last, out = args
            e = Emitter(builder)
            places = []
            for j in range(LANES):
                place = builder.select(builder.icmp_signed("<", I64(j), last), I64(j), last)
                slot = e.raw_load(I64, builder.add(slots, builder.shl(place, I64(3))), 8)
                places.append(builder.add(keys, builder.mul(slot, stride)))
            for first in range(0, lines, LANES):
                if pairs:
                    block = [e.raw_load(VI32, e.offset(p, first * 4)) for p in places]
                else:
                    block = [e.load(form, e.offset(p, first * form.num_bytes)) for p in places]
                for i, line in enumerate(e.transpose(block)):
                    e.raw_store(line, e.offset(out, (first + i) * KEYS * 4), 4)
            return _nothing(context)

        return _signature(5), codegen

    return pack_keys


def make_pack_values(form: Format, head_dim: int) -> Any:
    """`f(values, stride, slots, count, out)`: values in order as `[count, head_dim]` float32."""

    @intrinsic  # type: ignore[untyped-decorator]
    def pack_values(tc: Any, values: Any, stride: Any, slots: Any, count: Any, out: Any) -> Any:
        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[ir.Value]) -> Any:
            values, stride, slots, count, out = args
            e = Emitter(builder)
            with cgutils.for_range(builder, count) as loop:
                slot = e.raw_load(I64, builder.add(slots, builder.shl(loop.index, I64(3))), 8)
                value = builder.add(values, builder.mul(slot, stride))
                line = builder.add(out, builder.mul(loop.index, I64(head_dim * 4)))
                for c in range(0, head_dim, LANES):
                    part = e.load(form, e.offset(value, c * form.num_bytes))
                    e.raw_store(part, e.offset(line, c * 4), 4)
            return _nothing(context)

        return _signature(5), codegen

    return pack_values
