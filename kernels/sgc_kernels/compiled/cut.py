"""Cuts a step's attention into parts and work items, compiled.

A part is a run of keys with all sequences that have it in common: sequences with few queries are
laid out as a trie over their slots, so that a prefix is read once for all that share it, whoever
wrote it. Longer ones keep their whole context. Parts are cut into items: blocks of tokens, and
runs of keys where the threads would otherwise lack work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_kernels.compiled.cut_block import (
    CURSOR,
    FEW,
    FIRST_PARTIAL,
    GROWS,
    ITEMS,
    KV,
    KV_ENDS,
    KV_HEADS,
    NUM_ITEMS,
    NUM_PARTIALS,
    NUM_PARTS,
    NUM_ROWS,
    NUM_SEQUENCES,
    NUM_THREADS,
    ORDER,
    PARTS,
    POSITIONS,
    QO,
    ROWS,
    RUN,
    SLOTS,
    STACK,
)
from sgc_kernels.compiled.memory import load_int, load_int32, store_int
from sgc_kernels.compiled.step import ITEM, MIN_RUN, MIN_SHARED, UNITS_A_THREAD, Layout
from sgc_kernels.compiled.translate import kernel


@kernel
def _queries(cut: int, b: int) -> int:
    qo = load_int(cut + QO) + 4 * b
    return load_int32(qo + 4) - load_int32(qo)


@kernel
def _context(cut: int, b: int) -> int:
    end = load_int32(load_int(cut + KV_ENDS) + 4 * b)
    return end - load_int32(load_int(cut + KV) + 4 * b)


@kernel
def _slots(cut: int, b: int) -> int:
    return load_int(cut + SLOTS) + 8 * load_int32(load_int(cut + KV) + 4 * b)


@kernel
def _member(cut: int, place: int) -> int:
    return load_int(load_int(cut + ORDER) + 8 * place)


@kernel
def _push(cut: int, table: int, count: int, a: int, b: int, first: int, last: int) -> None:
    row = load_int(cut + table) + load_int(cut + count) * 32
    store_int(row, a)
    store_int(row + 8, b)
    store_int(row + 16, first)
    store_int(row + 24, last)
    store_int(cut + count, load_int(cut + count) + 1)


@kernel
def _common(cut: int, a: int, b: int, depth: int) -> int:
    """Leading slots that the sequences at places `[a, b)` share, all before any query."""
    one = _member(cut, a)
    length = _context(cut, one) - _queries(cut, one)
    slots = _slots(cut, one)
    for place in range(a + 1, b):
        other = _member(cut, place)
        length = min(length, _context(cut, other) - _queries(cut, other))
        others, same = _slots(cut, other), depth
        while same < length and load_int(slots + 8 * same) == load_int(others + 8 * same):
            same += 1
        length = min(length, same)
    return length


@kernel
def _gather_same(cut: int, a: int, b: int, depth: int) -> int:
    """Bring the members that go on like the one at `a` behind it; the place behind them."""
    one, end = _member(cut, a), a + 1
    if _context(cut, one) - _queries(cut, one) <= depth:
        return end
    slot = load_int(_slots(cut, one) + 8 * depth)
    for place in range(a + 1, b):
        other = _member(cut, place)
        if _context(cut, other) - _queries(cut, other) <= depth:
            continue
        if load_int(_slots(cut, other) + 8 * depth) == slot:
            store_int(load_int(cut + ORDER) + 8 * place, _member(cut, end))
            store_int(load_int(cut + ORDER) + 8 * end, other)
            end += 1
    return end


@kernel
def _share(cut: int, count: int) -> None:
    """Parts of the sequences at places `[0, count)`."""
    # NUM_ITEMS counts the stack until items are counted.
    store_int(cut + NUM_ITEMS, 0)
    _push(cut, STACK, NUM_ITEMS, 0, count, 0, 0)
    while load_int(cut + NUM_ITEMS) > 0:
        store_int(cut + NUM_ITEMS, load_int(cut + NUM_ITEMS) - 1)
        row = load_int(cut + STACK) + load_int(cut + NUM_ITEMS) * 32
        a, b = load_int(row), load_int(row + 8)
        covered, depth = load_int(row + 16), load_int(row + 24)
        if b - a == 1:
            _push(cut, PARTS, NUM_PARTS, a, b, covered, _context(cut, _member(cut, a)))
            continue
        length = _common(cut, a, b, depth)
        if length - covered >= MIN_SHARED:
            _push(cut, PARTS, NUM_PARTS, a, b, covered, length)
            covered = length
        while a < b:
            end = _gather_same(cut, a, b, length)
            _push(cut, STACK, NUM_ITEMS, a, end, covered, length)
            a = end


def make_count(layout: Layout) -> Callable[[int], None]:
    """`count(cut)`: parts, positions, and how many items, rows and partial results there are."""
    max_tokens = layout.max_tokens
    each_item = _make_each_item(max_tokens)

    def count(cut: int) -> None:
        _place_tokens(cut)
        if load_int(cut + GROWS) == 1:
            _grow_parts(cut)
        else:
            _find_parts(cut)
        _choose_run(cut, max_tokens)
        each_item(cut, False)
        _number_partials(cut, load_int32(load_int(cut + QO) + 4 * load_int(cut + NUM_SEQUENCES)))

    return count


@kernel
def _place_tokens(cut: int) -> None:
    """Each token's position, and no results of it so far."""
    for b in range(load_int(cut + NUM_SEQUENCES)):
        queries, first = _queries(cut, b), load_int32(load_int(cut + QO) + 4 * b)
        before = _context(cut, b) - queries
        for i in range(queries):
            store_int(load_int(cut + POSITIONS) + 8 * (first + i), before + i)
            store_int(load_int(cut + FIRST_PARTIAL) + 8 * (first + i), 0)


@kernel
def _find_parts(cut: int) -> None:
    few, total = 0, load_int(cut + NUM_SEQUENCES)
    store_int(cut + NUM_PARTS, 0)
    for b in range(total):
        if 0 < _queries(cut, b) <= load_int(cut + FEW):
            store_int(load_int(cut + ORDER) + 8 * few, b)
            few += 1
    if few > 0:
        _share(cut, few)
    place = few
    for b in range(total):
        if _queries(cut, b) > load_int(cut + FEW):
            store_int(load_int(cut + ORDER) + 8 * place, b)
            _push(cut, PARTS, NUM_PARTS, place, place + 1, 0, _context(cut, b))
            place += 1


@kernel
def _grow_parts(cut: int) -> None:
    """The new tokens belong to the parts of one sequence, which end with their contexts; those
    that sequences share stay as they are."""
    for p in range(load_int(cut + NUM_PARTS)):
        part = load_int(cut + PARTS) + 32 * p
        if load_int(part + 8) - load_int(part) == 1:
            store_int(part + 24, _context(cut, _member(cut, load_int(part))))


@kernel
def _choose_run(cut: int, max_tokens: int) -> None:
    """How many keys an item may have, so that all threads find work."""
    units, keys = 0, 0
    for p in range(load_int(cut + NUM_PARTS)):
        part = load_int(cut + PARTS) + 32 * p
        tokens = 0
        for place in range(load_int(part), load_int(part + 8)):
            tokens += _queries(cut, _member(cut, place))
        blocks = (tokens + max_tokens - 1) // max_tokens
        units += blocks * load_int(cut + KV_HEADS)
        keys += blocks * load_int(cut + KV_HEADS) * (load_int(part + 24) - load_int(part + 16))
    wanted = load_int(cut + NUM_THREADS) * UNITS_A_THREAD
    alone = load_int(cut + NUM_THREADS) == 1 or units >= wanted
    store_int(cut + RUN, 1 << 60 if alone else max(MIN_RUN, keys // wanted + 1))


@kernel
def _number_partials(cut: int, tokens: int) -> None:
    """Counts of results by token into the number of each token's first partial one."""
    total, table = 0, load_int(cut + FIRST_PARTIAL)
    for t in range(tokens):
        results = load_int(table + 8 * t)
        store_int(table + 8 * t, total)
        store_int(load_int(cut + CURSOR) + 8 * t, total if results > 1 else -1)
        total += results if results > 1 else 0
    store_int(table + 8 * tokens, total)
    store_int(cut + NUM_PARTIALS, total)


def make_fill(layout: Layout) -> Callable[[int], None]:
    """`fill(cut)`: the items and rows that `count` has counted."""
    each_item = _make_each_item(layout.max_tokens)

    def fill(cut: int) -> None:
        each_item(cut, True)

    return fill


def _make_each_item(max_tokens: int) -> Any:
    @kernel
    def each_item(cut: int, fill: bool) -> None:
        store_int(cut + NUM_ITEMS, 0)
        store_int(cut + NUM_ROWS, 0)
        for p in range(load_int(cut + NUM_PARTS)):
            part = load_int(cut + PARTS) + 32 * p
            place, last_place = load_int(part), load_int(part + 8)
            offset = 0  # tokens of the sequence at `place` that have their block already
            while place < last_place:
                place, offset = _block(cut, part, place, offset, fill, max_tokens)

    return each_item


@kernel
def _block(
    cut: int, part: int, place: int, offset: int, fill: bool, max_tokens: int
) -> tuple[int, int]:
    """The items of the next block of tokens; where the one behind it begins."""
    first_key, last_key = load_int(part + 16), load_int(part + 24)
    a, a_offset, tokens, seen = place, offset, 0, 0
    while place < load_int(part + 8) and tokens < max_tokens:
        b = _member(cut, place)
        count = min(_queries(cut, b) - offset, max_tokens - tokens)
        offset += count
        tokens += count
        seen = max(seen, _context(cut, b) - _queries(cut, b) + offset)
        if offset == _queries(cut, b):
            place, offset = place + 1, 0
    last_key = min(last_key, seen)
    key = first_key
    while key < last_key:
        keys = min(load_int(cut + RUN), last_key - key)
        if fill:
            _write_item(cut, a, a_offset, tokens, key, keys)
        else:
            _count_results(cut, a, a_offset, tokens)
        store_int(cut + NUM_ITEMS, load_int(cut + NUM_ITEMS) + 1)
        store_int(cut + NUM_ROWS, load_int(cut + NUM_ROWS) + tokens)
        key += keys
    return place, offset


@kernel
def _count_results(cut: int, place: int, offset: int, tokens: int) -> None:
    for _ in range(tokens):
        b = _member(cut, place)
        token = load_int(cut + FIRST_PARTIAL) + 8 * (
            load_int32(load_int(cut + QO) + 4 * b) + offset
        )
        store_int(token, load_int(token) + 1)
        offset += 1
        if offset == _queries(cut, b):
            place, offset = place + 1, 0


@kernel
def _write_item(cut: int, place: int, offset: int, tokens: int, key: int, keys: int) -> None:
    item = load_int(cut + ITEMS) + load_int(cut + NUM_ITEMS) * ITEM * 8
    first_slot = load_int32(load_int(cut + KV) + 4 * _member(cut, place)) + key
    store_int(item, load_int(cut + NUM_ROWS))
    store_int(item + 8, tokens)
    store_int(item + 16, first_slot)
    store_int(item + 24, keys)
    store_int(item + 32, key)
    row = load_int(cut + ROWS) + load_int(cut + NUM_ROWS) * 16
    for i in range(tokens):
        b = _member(cut, place)
        token = load_int32(load_int(cut + QO) + 4 * b) + offset
        cursor = load_int(cut + CURSOR) + 8 * token
        partial = load_int(cursor)
        store_int(row + 16 * i, token)
        store_int(row + 16 * i + 8, partial)
        if partial >= 0:
            store_int(cursor, partial + 1)
        offset += 1
        if offset == _queries(cut, b):
            place, offset = place + 1, 0
