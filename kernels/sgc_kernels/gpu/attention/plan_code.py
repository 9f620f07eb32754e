"""What `shared` and `plan` compute, as kernels for the compiler; each takes the address of a job.

A job is a block of 64-bit integers; the names below are byte offsets into it. Arrays that a job
names are int32, scratch is int64.
"""

from __future__ import annotations

from sgc_kernels.compiled.memory import load_int, load_int32, store_int, store_int32
from sgc_kernels.compiled.translate import kernel
from sgc_kernels.gpu.attention.items import COUNT, END, FIRST, ITEM, PART, PLACE, ROW, START

(TABLE, WIDTH, ROWS, LENGTHS, NUM_TOKENS, OUT_LCP, OUT_ORDER, SCRATCH) = range(0, 64, 8)
SHARE_WORDS = 8
SHARE_SCRATCH = 12  # words a token, and so many more

(
    LCP,
    LENS,
    NUM_ROWS,
    ROOM,
    WINDOW,  # 0: none
    MOST_ROWS,  # of a block
    LEAST_SHARED,
    GROUP,
    FEW_ROWS,
    OWN_ROWS,
    SPANS,  # [2 * rows, 6]
    STACK,  # scratch
    NUM_SPANS,  # out, as all that follows to here
    NUM_WIDE,
    LARGEST_WIDE,  # rows
    WIDE_TOKENS,
    NUM_NARROW,
    NARROW_TOKENS,
    OWN_TOKENS,
    OWN_SQUARES,
    WIDE_SIZE,  # tokens of a piece
    NARROW_SIZE,
    OWN_STEP,
    MAX_PARTIALS,
    MOST_WIDE,  # items
    MOST_FEW,
    MOST_OWN,
    PIECES,  # scratch, [2 * rows] each: pieces, the size of one, partial results above
    WIDE_ITEMS,  # out: how many, then where they go
    FEW_ITEMS,
    OWN_ITEMS,
    ORDER,
    PLACES,
    ENDS,
) = range(0, 34 * 8, 8)
PLAN_WORDS = 34
MAX_DEPTH = 6
STACK_SCRATCH = 8  # words a row, and so many more

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


# -- what rows share ----------------------------------------------------------------------------


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


# -- spans --------------------------------------------------------------------------------------


@kernel
def _least(lcp: int, first: int, last: int) -> int:
    """What neighbours among some rows share at least."""
    least = load_int(lcp + 8 * first + 8)
    for i in range(first + 2, last):
        least = min(least, load_int(lcp + 8 * i))
    return least


@kernel
def _worth(job: int, rows: int) -> int:
    """See `Planner._worth_sharing`."""
    partials = (2 * load_int(job + GROUP) * rows + rows - 2) // (rows - 1)
    return max(load_int(job + LEAST_SHARED), partials)


@kernel
def _cut_at(job: int, lcp: int, first: int, last: int) -> int:
    """Where rows are cut in two; see `Planner.cut`."""
    most, least = load_int(job + MOST_ROWS), _least(lcp, first, last)
    most_lost = least + max(2 * load_int(job + LEAST_SHARED), least // 16)
    middle = first + most * ((last - first + 2 * most - 1) // (2 * most))
    found, nearest = first + 1, last - first + most
    for i in range(first + 1, last):
        distance = max(i - middle, middle - i)
        if load_int(lcp + 8 * i) <= most_lost and distance < nearest:
            found = i
            nearest = distance
    return found


@kernel
def _push(stack: int, first: int, last: int, start: int, parent: int, depth: int) -> None:
    store_int(stack, first)
    store_int(stack + 8, last)
    store_int(stack + 16, start)
    store_int(stack + 24, parent)
    store_int(stack + 32, depth)


@kernel
def _add_span(
    job: int, first: int, rows: int, start: int, end: int, parent: int, depth: int
) -> int:
    """Its number."""
    number = load_int(job + NUM_SPANS)
    at, length = load_int(job + SPANS) + 24 * number, end - start
    store_int32(at, first)
    store_int32(at + 4, rows)
    store_int32(at + 8, start)
    store_int32(at + 12, end)
    store_int32(at + 16, parent)
    store_int32(at + 20, depth)
    store_int(job + NUM_SPANS, number + 1)
    if rows > load_int(job + FEW_ROWS):
        store_int(job + NUM_WIDE, load_int(job + NUM_WIDE) + 1)
        store_int(job + LARGEST_WIDE, max(load_int(job + LARGEST_WIDE), rows))
        store_int(job + WIDE_TOKENS, load_int(job + WIDE_TOKENS) + length)
    else:
        store_int(job + NUM_NARROW, load_int(job + NUM_NARROW) + 1)
        store_int(job + NARROW_TOKENS, load_int(job + NARROW_TOKENS) + length)
    if rows <= load_int(job + OWN_ROWS):
        store_int(job + OWN_TOKENS, load_int(job + OWN_TOKENS) + length)
        store_int(job + OWN_SQUARES, load_int(job + OWN_SQUARES) + length * length)
    return number


@kernel
def _oldest(job: int, first: int, last: int) -> int:
    """The first token that any of some rows sees."""
    window, found = load_int(job + WINDOW), 0
    if window > 0:
        lens, shortest = load_int(job + LENS), load_int32(load_int(job + LENS) + 4 * first)
        for i in range(first + 1, last):
            shortest = min(shortest, load_int32(lens + 4 * i))
        found = max(0, shortest - window)
    return found


@kernel
def _block(job: int, lcp: int, begin: int, stop: int, stack: int) -> None:
    """The spans of one block; see `Planner._block`."""
    lens = load_int(job + LENS)
    _push(stack, begin, stop, 0, -1, 0)
    top = 1
    while top > 0:
        top -= 1
        at = stack + 40 * top
        first, last, parent = load_int(at), load_int(at + 8), load_int(at + 24)
        depth, rows = load_int(at + 32), last - first
        start = max(load_int(at + 16), _oldest(job, first, last))
        if rows == 1:
            _add_span(job, first, 1, start, load_int32(lens + 4 * first), parent, depth)
        else:
            common, least = _least(lcp, first, last), start + _worth(job, rows)
            if depth < MAX_DEPTH and common >= least:
                least += common - start
                parent = _add_span(job, first, rows, start, common, parent, depth)
                start = common
                depth += 1
            behind = last
            for back in range(1, rows):
                i = last - back
                if depth == MAX_DEPTH or load_int(lcp + 8 * i) < least:
                    _push(stack + 40 * top, i, behind, start, parent, depth)
                    top += 1
                    behind = i
            _push(stack + 40 * top, first, behind, start, parent, depth)
            top += 1


def spans(job: int) -> None:
    """See `Planner._cut_spans`, and `_Totals`."""
    shared, lens, num = load_int(job + LCP), load_int(job + LENS), load_int(job + NUM_ROWS)
    lcp, before = load_int(job + STACK), 0
    for i in range(num):
        length = load_int32(lens + 4 * i)
        store_int(lcp + 8 * i, min(load_int32(shared + 4 * i), min(length, before)))
        before = length
    for place in range(NUM_SPANS, OWN_SQUARES + 8, 8):
        store_int(job + place, 0)
    blocks = lcp + 8 * num
    stack = blocks + 16 * num + 16
    store_int(blocks, 0)
    store_int(blocks + 8, num)
    top = min(num, 1)
    while top > 0:
        top -= 1
        first, last = load_int(blocks + 16 * top), load_int(blocks + 16 * top + 8)
        if last - first > load_int(job + MOST_ROWS):
            at = _cut_at(job, lcp, first, last)
            store_int(blocks + 16 * top, at)
            store_int(blocks + 16 * top + 8, last)
            store_int(blocks + 16 * top + 16, first)
            store_int(blocks + 16 * top + 24, at)
            top += 2
        else:
            _block(job, lcp, first, last, stack)


# -- items --------------------------------------------------------------------------------------


@kernel
def _divide_up(number: int, size: int) -> int:
    return (number + max(size, 1) - 1) // max(size, 1)


@kernel
def _even(length: int, pieces: int, aligned: int) -> int:
    return _divide_up(_divide_up(length, pieces), aligned) * aligned


@kernel
def _kind(job: int, rows: int) -> int:
    """0: wide, 1: few, 2: own."""
    kind = 0
    if rows <= load_int(job + FEW_ROWS):
        kind = 1
    if rows <= load_int(job + OWN_ROWS):
        kind = 2
    return kind


@kernel
def _aligned(job: int, kind: int) -> int:
    return load_int(job + OWN_STEP) if kind == 2 else 64


@kernel
def _count_pieces(job: int) -> int:
    """Pieces by the sizes so far, and their number by kind; how many partial results they give."""
    count, partials = load_int(job + NUM_SPANS), 0
    pieces, sizes = load_int(job + PIECES), load_int(job + PIECES) + 8 * count
    for kind in range(3):
        store_int(job + WIDE_ITEMS + 8 * kind, 0)
    for i in range(count):
        span = load_int(job + SPANS) + 24 * i
        rows, length = load_int32(span + 4), load_int32(span + 12) - load_int32(span + 8)
        kind = _kind(job, rows)
        some = _divide_up(length, load_int(sizes + 8 * i))
        some = _divide_up(length, _even(length, some, _aligned(job, kind)))
        store_int(pieces + 8 * i, some)
        items = job + WIDE_ITEMS + 8 * kind
        store_int(items, load_int(items) + some)
        partials += some * rows
    return partials


@kernel
def _enlarge(job: int, partials: int) -> int:
    """Double the sizes of what is cut too often; how many were."""
    count, found = load_int(job + NUM_SPANS), 0
    pieces, sizes = load_int(job + PIECES), load_int(job + PIECES) + 8 * count
    for i in range(count):
        kind = _kind(job, load_int32(load_int(job + SPANS) + 24 * i + 4))
        some = load_int(job + WIDE_ITEMS + 8 * kind)
        if partials > load_int(job + MAX_PARTIALS) or some > load_int(job + MOST_WIDE + 8 * kind):
            if load_int(pieces + 8 * i) > 1:
                store_int(sizes + 8 * i, 2 * load_int(sizes + 8 * i))
                found += 1
    return found


def cut(job: int) -> None:
    """See `Planner._pieces`."""
    count, found = load_int(job + NUM_SPANS), 1
    sizes = load_int(job + PIECES) + 8 * count
    for i in range(count):
        kind = _kind(job, load_int32(load_int(job + SPANS) + 24 * i + 4))
        size = load_int(job + WIDE_SIZE) if kind == 0 else load_int(job + NARROW_SIZE)
        store_int(sizes + 8 * i, size)
    while found > 0:
        found = _enlarge(job, _count_pieces(job))


@kernel
def _fill_span(job: int, number: int, items: int) -> None:
    """The items of one span, from a place on."""
    count, span = load_int(job + NUM_SPANS), load_int(job + SPANS) + 24 * number
    pieces, above = load_int(job + PIECES), load_int(job + PIECES) + 16 * count
    first, rows, start = load_int32(span), load_int32(span + 4), load_int32(span + 8)
    end, parent = load_int32(span + 12), load_int32(span + 16)
    parts, some = 0, load_int(pieces + 8 * number)
    if parent >= 0:
        parts = load_int(above + 8 * parent) + load_int(pieces + 8 * parent)
    store_int(above + 8 * number, parts)
    row = load_int32(load_int(job + ORDER) + 4 * first)
    size = _even(end - start, some, _aligned(job, _kind(job, rows)))
    for i in range(some):
        item = items + 4 * ITEM * i
        store_int32(item + 4 * ROW, row)
        store_int32(item + 4 * START, start + i * size)
        store_int32(item + 4 * END, min(start + i * size + size, end))
        store_int32(item + 4 * FIRST, first)
        store_int32(item + 4 * COUNT, rows)
        store_int32(item + 4 * PART, parts + i)
    if rows == 1:
        place = load_int(job + PLACES) + 4 * PLACE * first
        store_int32(place, row)
        store_int32(place + 8, parts + some)
        if some > 0:
            end += load_int(job + ROOM)
            store_int32(items + 4 * ITEM * (some - 1) + 4 * END, end)
        store_int32(load_int(job + ENDS) + 4 * first, end)


def fill(job: int) -> None:
    """See `plan._items`; the arrays hold zeros before."""
    count, base = load_int(job + NUM_SPANS), 0
    for i in range(count):
        rows = load_int32(load_int(job + SPANS) + 24 * i + 4)
        at = job + WIDE_ITEMS + 8 * _kind(job, rows)
        items = load_int(at)
        _fill_span(job, i, items)
        store_int(at, items + 4 * ITEM * load_int(load_int(job + PIECES) + 8 * i))
    for i in range(load_int(job + NUM_ROWS)):
        place = load_int(job + PLACES) + 4 * PLACE * i
        store_int32(place + 4, base)
        base += load_int32(place + 8)
