"""Spans and items of decode attention, as kernels for the compiler (see `plan_jobs`).

Each takes the address of a job; what it computes is described in `plan_reference`.
"""

from __future__ import annotations

from sgc_kernels.compiled.memory import load_int, load_int32, store_int, store_int32
from sgc_kernels.compiled.translate import kernel
from sgc_kernels.gpu.attention.items import COUNT, END, FIRST, ITEM, PART, PLACE, ROW, START
from sgc_kernels.gpu.attention.plan_jobs import (
    ENDS,
    FEW_ROWS,
    GROUP,
    LARGEST_WIDE,
    LCP,
    LEAST_SHARED,
    LENS,
    MAX_PARTIALS,
    MOST_ROWS,
    MOST_WIDE,
    NARROW_SIZE,
    NARROW_TOKENS,
    NUM_NARROW,
    NUM_ROWS,
    NUM_SPANS,
    NUM_WIDE,
    ORDER,
    OWN_ROWS,
    OWN_SQUARES,
    OWN_STEP,
    OWN_TOKENS,
    PIECES,
    PLACES,
    ROOM,
    SPANS,
    STACK,
    WIDE_ITEMS,
    WIDE_SIZE,
    WIDE_TOKENS,
    WINDOW,
)
from sgc_kernels.gpu.attention.plan_rules import MAX_DEPTH

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
    """See `Rules.worth_sharing`."""
    partials = (2 * load_int(job + GROUP) * rows + rows - 2) // (rows - 1)
    return max(load_int(job + LEAST_SHARED), partials)


@kernel
def _cut_at(job: int, lcp: int, first: int, last: int) -> int:
    """Where rows are cut in two; see `plan_reference.cut`."""
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
    """The spans of one block; see `plan_reference._block`."""
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
    """See `plan_reference.spans`."""
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
    """See `plan_reference._pieces`."""
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
    """See `plan_reference.items`; the arrays hold zeros before."""
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
