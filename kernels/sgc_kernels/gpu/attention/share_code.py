"""What rows share, and their depth-first order, as a kernel for the compiler (see `plan_jobs`)."""

from __future__ import annotations

from sgc_kernels.compiled.memory import load_int, load_int32, store_int, store_int32
from sgc_kernels.compiled.translate import kernel
from sgc_kernels.gpu.attention.plan_jobs import (
    LENGTHS,
    NUM_TOKENS,
    OUT_LCP,
    OUT_ORDER,
    ROWS,
    SCRATCH,
    TABLE,
    WIDTH,
)

_BIAS, _PLACES, _SIZES = 1 << 20, 1 << 20, 1 << 40


@kernel
def _sort(base: int, count: int) -> None:
    """Numbers in place, by a comb of shrinking gaps."""
    gap = count
    while gap > 1:
        gap = max(1, gap * 5 // 11)
        for i in range(gap, count):
            key = load_int(base + 8 * i)
            j = i
            while j >= gap and load_int(base + 8 * (j - gap)) > key:
                store_int(base + 8 * j, load_int(base + 8 * (j - gap)))
                j -= gap
            store_int(base + 8 * j, key)


@kernel
def _shared(a: int, b: int, low: int, high: int) -> int:
    """Slots that two rows share: `low` at least, `high` at most."""
    while low < high:
        middle = (low + high + 1) // 2
        if load_int32(a + 4 * middle - 4) == load_int32(b + 4 * middle - 4):
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _common(order: int, count: int, bases: int, ends: int, depth: int) -> int:
    """Slots that all units share, of which `depth` are known."""
    head = load_int(order)
    base, common = load_int(bases + 8 * head), load_int(ends + 8 * head)
    for i in range(1, count):
        unit = load_int(order + 8 * i)
        other, high = load_int(bases + 8 * unit), min(common, load_int(ends + 8 * unit))
        common = high
        if high > depth:
            if load_int32(base + 4 * high - 4) != load_int32(other + 4 * high - 4):
                common = _shared(base, other, depth, high - 1)
    return common


@kernel
def _split(order: int, count: int, bases: int, ends: int, depth: int, keys: int, old: int) -> None:
    """Sort units by their slot at `depth`, see `shared._split`; `keys` then holds the groups in
    order, a size and a place each."""
    for i in range(count):
        unit = load_int(order + 8 * i)
        store_int(old + 8 * i, unit)
        value = -1 - unit
        if load_int(ends + 8 * unit) > depth:
            value = load_int32(load_int(bases + 8 * unit) + 4 * depth)
        store_int(keys + 8 * i, (value + _BIAS) * _PLACES + i)
    _sort(keys, count)


@kernel
def _groups(keys: int, count: int, old: int, sorted_: int) -> int:
    """From sorted keys to units in that order, and the groups sorted by size; how many."""
    groups, begin = 0, 0
    for i in range(count):
        key = load_int(keys + 8 * i)
        store_int(sorted_ + 8 * i, load_int(old + 8 * (key % _PLACES)))
        following = -1
        if i + 1 < count:
            following = load_int(keys + 8 * i + 8) // _PLACES
        if key // _PLACES != following:
            store_int(keys + 8 * groups, (i + 1 - begin) * _SIZES + begin)
            groups += 1
            begin = i + 1
    _sort(keys, groups)
    return groups


@kernel
def _order_units(scratch: int, num: int, units: int) -> None:
    """Depth-first order of the units, and what each shares with the one before."""
    ends, bases, order = scratch, scratch + 8 * num, scratch + 16 * num
    between, keys, old = scratch + 24 * num, scratch + 32 * num, scratch + 40 * num
    sorted_, stack = scratch + 48 * num, scratch + 56 * num
    for i in range(units):
        store_int(order + 8 * i, i)
        store_int(between + 8 * i, 0)
    store_int(stack, 0)
    store_int(stack + 8, units)
    store_int(stack + 16, 0)
    top = 1
    while top > 0:
        top -= 1
        first, count = load_int(stack + 24 * top), load_int(stack + 24 * top + 8)
        here = order + 8 * first
        common = _common(here, count, bases, ends, load_int(stack + 24 * top + 16))
        if count == 2:
            store_int(between + 8 * first + 8, common)
        if count > 2:
            _split(here, count, bases, ends, common, keys, old)
            groups, at = _groups(keys, count, old, sorted_), 0
            for i in range(groups):
                size, begin = load_int(keys + 8 * i) // _SIZES, load_int(keys + 8 * i) % _SIZES
                for j in range(size):
                    store_int(here + 8 * (at + j), load_int(sorted_ + 8 * (begin + j)))
                if at > 0:
                    store_int(between + 8 * (first + at), common)
                if size > 1:
                    store_int(stack + 24 * top, first + at)
                    store_int(stack + 24 * top + 8, size)
                    store_int(stack + 24 * top + 16, common + 1)
                    top += 1
                at += size


def share(job: int) -> None:
    """See `row_plans.share`."""
    rows, lens, num = load_int(job + ROWS), load_int(job + LENGTHS), load_int(job + NUM_TOKENS)
    table, width = load_int(job + TABLE), load_int(job + WIDTH)
    ends = load_int(job + SCRATCH)
    bases, order, between = ends + 8 * num, ends + 16 * num, ends + 24 * num
    firsts, units, before = ends + 80 * num, 0, -1
    for i in range(num):
        row = load_int32(rows + 4 * i)
        if row != before:
            store_int(firsts + 8 * units, i)
            store_int(bases + 8 * units, table + 4 * width * row)
            units += 1
        before = row
        store_int(ends + 8 * units - 8, load_int32(lens + 4 * i))
    store_int(firsts + 8 * units, num)
    _order_units(ends, num, units)
    out, place = load_int(job + OUT_LCP), 0
    out_order = load_int(job + OUT_ORDER)
    for i in range(units):
        unit = load_int(order + 8 * i)
        lcp = load_int(between + 8 * i)
        for token in range(load_int(firsts + 8 * unit), load_int(firsts + 8 * unit + 8)):
            store_int32(out + 4 * place, lcp)
            store_int32(out_order + 4 * place, token)
            lcp = load_int32(lens + 4 * token)
            place += 1
