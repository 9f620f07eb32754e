"""The inner loops of attention: products of a few queries, or of many, with a run of keys.

`few` loops read keys and values where they lie, each once for all queries (decode is bound by
that reading). `many` loops are matrix products over blocks that are packed once for all queries
(prefill, and decode over a shared prefix). Addresses and counts are int64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from sgc_kernels.compiled.lanes import F32, I32, I64, LANES, VF32, VI16, VI32, Emitter
from sgc_kernels.compiled.target import KEYS, Format, Target
from sgc_kernels.compiled.translate import emitted


def make_scores_few(target: Target, form: Format, head_dim: int, rows: int) -> Any:
    """`f(q, keys, stride, slots, last, out, out_stride)`: products of `rows` queries with 16 keys.

    q: `[rows, head_dim]` in `form`; slot numbers from `slots` on, of which the last valid one is
    number `last` (it is read again instead of those behind). Writes 16 float32 a row.
    """
    pairs = target.has_pairs(form)
    width = 2 * LANES if pairs else LANES
    chunks = head_dim // width

    @emitted
    def scores_few(
        e: Emitter,
        q: ir.Value,
        keys: ir.Value,
        stride: ir.Value,
        slots: ir.Value,
        last: ir.Value,
        out: ir.Value,
        gap: ir.Value,
    ) -> None:
        def load(address: ir.Value, chunk: int) -> ir.Value:
            address = e.offset(address, chunk * width * form.num_bytes)
            return e.raw_load(VI32, address) if pairs else e.load(form, address)

        queries = [
            [load(e.offset(q, r * head_dim * form.num_bytes), c) for c in range(chunks)]
            for r in range(rows)
        ]
        open_runs: list[list[tuple[int, ir.Value]]] = [[] for _ in range(rows)]
        for j in range(LANES):
            place = e.b.select(e.b.icmp_signed("<", I64(j), last), I64(j), last)
            slot = e.raw_load(I64, e.b.add(slots, e.b.shl(place, I64(3))), 8)
            key = e.b.add(keys, e.b.mul(slot, stride))
            parts = [load(key, c) for c in range(chunks)]
            for r in range(rows):
                _fold_in(e, open_runs[r], _products(e, pairs, parts, queries[r]))
        for r in range(rows):
            target = e.b.add(out, e.b.mul(gap, I64(r)))
            e.raw_store(open_runs[r][0][1], target, 4)

    return scores_few


def _products(e: Emitter, pairs: bool, a: list[ir.Value], b: list[ir.Value]) -> ir.Value:
    """Products of two vectors of numbers, in parts, added up lane by lane."""
    acc = ir.Constant(VF32, [0.0] * LANES)
    for x, y in zip(a, b, strict=True):
        acc = e.dot_pairs(acc, x, y) if pairs else e.fma(x, y, acc)
    return acc


def _fold_in(e: Emitter, runs: list[tuple[int, ir.Value]], vector: ir.Value) -> None:
    """Add up the lanes of 16 vectors to one with their sums: two that are equally far become one
    at once, so that few registers are taken. `runs`: (lanes still to be added up, vector)."""
    width = LANES
    while runs and runs[-1][0] == width:
        vector = e.fold(runs.pop()[1], vector, width)
        width //= 2
    runs.append((width, vector))


def make_values_few(form: Format, head_dim: int, rows: int) -> Any:
    """`f(p, p_stride, values, stride, slots, count, acc, factors)`:
    `acc = acc * factor of the row + p @ values`; acc `[rows, head_dim]` float32.
    """
    columns = max(1, min(head_dim // LANES, 16 // rows))

    @emitted
    def values_few(
        e: Emitter,
        p: ir.Value,
        gap: ir.Value,
        values: ir.Value,
        stride: ir.Value,
        slots: ir.Value,
        count: ir.Value,
        acc: ir.Value,
        factors: ir.Value,
    ) -> None:
        total = head_dim // LANES
        for first in range(0, total, columns):
            block = range(first, min(total, first + columns))
            cells = _load_accumulators(e, acc, factors, rows, head_dim * 4, block)
            with e.for_range(count) as index:
                j = index
                slot = e.raw_load(I64, e.b.add(slots, e.b.shl(j, I64(3))), 8)
                value = e.b.add(values, e.b.mul(slot, stride))
                parts = [e.load(form, e.offset(value, c * LANES * form.num_bytes)) for c in block]
                for r in range(rows):
                    row = e.b.add(p, e.b.mul(gap, I64(r)))
                    weight = e.raw_load(F32, e.b.add(row, e.b.shl(j, I64(2))), 4)
                    _accumulate(e, cells[r], e.splat(weight), parts)
            _store_accumulators(e, acc, cells, head_dim * 4, block)

    return values_few


def make_product(target: Target, steps: int | None, columns: int, pairs: bool) -> Any:
    """`f(a, a_stride, b, out, out_stride, factors, count)`: rows of a matrix product, a tile.

    `b` is `[steps, columns]` packed; with `pairs` a and b hold bfloat16 pairs in 32 bits, else
    float32. `factors` is 0, or the address of a factor a row on what stands in `out` before.
    With `steps` None, `count` says how many there are.
    """
    total = columns // LANES

    @emitted
    def product(
        e: Emitter,
        a: ir.Value,
        a_gap: ir.Value,
        b: ir.Value,
        out: ir.Value,
        out_gap: ir.Value,
        factors: ir.Value,
        count: ir.Value,
    ) -> None:
        end = I64(steps) if steps is not None else count
        kind = I32 if pairs else F32
        for first in range(0, total, target.tile_columns):
            block = range(first, min(total, first + target.tile_columns))
            keep = None if steps is not None else factors
            cells = _load_accumulators(e, out, keep, target.tile_rows, out_gap, block)
            with e.for_range(end) as index:
                k4 = e.b.shl(index, I64(2))
                line = e.b.add(b, e.b.mul(k4, I64(columns)))
                vector = VI32 if pairs else VF32
                parts = [e.raw_load(vector, e.offset(line, c * LANES * 4), 4) for c in block]
                for r in range(target.tile_rows):
                    row = e.b.add(a, e.b.mul(a_gap, I64(r)))
                    factor = e.splat(e.raw_load(kind, e.b.add(row, k4), 4))
                    _accumulate(e, cells[r], factor, parts, pairs)
            _store_accumulators(e, out, cells, out_gap, block)

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
    cells = [[e.alloca(VF32) for _ in columns] for _ in range(rows)]
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


def make_pack_keys(target: Target, form: Format, head_dim: int) -> Any:
    """`f(keys, stride, slots, last, out)`: 16 keys as columns of a packed block of `KEYS`.

    Rows of the block are dimensions (float32), or pairs of them where pairs are multiplied.
    """
    pairs = target.has_pairs(form)
    lines = head_dim // 2 if pairs else head_dim

    @emitted
    def pack_keys(
        e: Emitter, keys: ir.Value, stride: ir.Value, slots: ir.Value, last: ir.Value, out: ir.Value
    ) -> None:
        places = []
        for j in range(LANES):
            place = e.b.select(e.b.icmp_signed("<", I64(j), last), I64(j), last)
            slot = e.raw_load(I64, e.b.add(slots, e.b.shl(place, I64(3))), 8)
            places.append(e.b.add(keys, e.b.mul(slot, stride)))
        for first in range(0, lines, LANES):
            if pairs:
                block = [e.raw_load(VI32, e.offset(p, first * 4)) for p in places]
            else:
                block = [e.load(form, e.offset(p, first * form.num_bytes)) for p in places]
            for i, line in enumerate(e.transpose(block)):
                e.raw_store(line, e.offset(out, (first + i) * KEYS * 4), 4)

    return pack_keys


def make_pack_values(form: Format, head_dim: int, pairs: bool) -> Any:
    """`f(values, stride, slots, count, out)`: values in order as `[count, head_dim]` float32; with
    `pairs` as `[ceil(count / 2), head_dim]` of two keys' values each, 0 behind the last one.
    """

    @emitted
    def pack_values(
        e: Emitter,
        values: ir.Value,
        stride: ir.Value,
        slots: ir.Value,
        count: ir.Value,
        out: ir.Value,
    ) -> None:
        def place(index: ir.Value) -> ir.Value:
            slot = e.raw_load(I64, e.b.add(slots, e.b.shl(index, I64(3))), 8)
            return e.b.add(values, e.b.mul(slot, stride))

        lines = e.b.lshr(e.b.add(count, I64(1)), I64(1)) if pairs else count
        with e.for_range(lines) as index:
            line = e.b.add(out, e.b.mul(index, I64(head_dim * 4)))
            if pairs:
                _pack_two(e, place, index, count, line, head_dim)
            else:
                _pack_one(e, form, place(index), line, head_dim)

    return pack_values


def _pack_one(e: Emitter, form: Format, value: ir.Value, line: ir.Value, head_dim: int) -> None:
    for c in range(0, head_dim, LANES):
        part = e.load(form, e.offset(value, c * form.num_bytes))
        e.raw_store(part, e.offset(line, c * 4), 4)


def _pack_two(
    e: Emitter,
    place: Callable[[ir.Value], ir.Value],
    index: ir.Value,
    count: ir.Value,
    line: ir.Value,
    head_dim: int,
) -> None:
    """Values of keys `2 * index` and the next beside each other, 16 bits each."""
    low = e.b.shl(index, I64(1))
    high = e.b.add(low, I64(1))
    inside = e.b.icmp_signed("<", high, count)
    one, other = place(low), place(e.b.select(inside, high, low))
    for c in range(0, head_dim, LANES):
        a, b = (e.b.zext(e.raw_load(VI16, e.offset(v, c * 2)), VI32) for v in (one, other))
        b = e.b.select(inside, e.b.shl(b, e.splat_int(16)), e.splat_int(0))
        e.raw_store(e.b.or_(a, b), e.offset(line, c * 4), 4)
