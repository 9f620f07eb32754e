"""Attention of one layer, compiled: work items of queries and runs of keys, then their merge.

Addresses of all that a step and a layer need lie in one block of 64-bit integers, `STEP`; several
threads run `attend` on the same block and take items by a counter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sgc_kernels.compiled.memory import clear, copy, load_float, load_int, store_float, take_ticket
from sgc_kernels.compiled.rows import (
    add_scaled,
    exp_scalar,
    make_scale_row,
    make_widen_row,
    set_scaled,
)
from sgc_kernels.compiled.softmax import HIDDEN, make_softmax_block, make_softmax_row
from sgc_kernels.compiled.step import (
    COUNTER,
    FIRST_PARTIAL,
    HEADS,
    ITEM,
    ITEMS,
    KV_HEADS,
    OUT,
    PARTIAL_STATE,
    PARTIAL_SUMS,
    POSITIONS,
    ROWS,
    SCALE,
    SCRATCH,
    SLOTS,
    STRIDE,
    THREADS,
    TOKENS,
    UNITS,
    WINDOW,
    K,
    Layout,
    Q,
    V,
)
from sgc_kernels.compiled.target import KEYS, Format, Target
from sgc_kernels.compiled.tiles import (
    make_pack_keys,
    make_pack_values,
    make_product,
    make_scores_few,
    make_values_few,
)
from sgc_kernels.compiled.translate import kernel

FEW_KEYS = 256  # keys whose scores are computed at a time where queries are few


def make_attend(target: Target, form: Format, head_dim: int, group: int) -> Callable[[int], None]:
    """`attend(step)`: take items until none is left."""
    few = _make_few(target, form, head_dim, group)
    many = _make_many(target, form, head_dim, group)
    finish = _make_finish(target, form, head_dim, group)
    layout = Layout(target, form, head_dim, group)
    scratch_bytes, few_tokens = layout.scratch_bytes, layout.few_tokens
    item_bytes = ITEM * 8

    def attend(step: int) -> None:
        thread = take_ticket(step + THREADS)
        scratch = load_int(step + SCRATCH) + thread * scratch_bytes
        kv_heads, units = load_int(step + KV_HEADS), load_int(step + UNITS)
        items = load_int(step + ITEMS)
        unit = take_ticket(step + COUNTER)
        while unit < units:
            item = items + unit // kv_heads * item_bytes
            head = unit % kv_heads
            if few_tokens == 0:  # known while translating: `few` is not even compiled
                many(step, item, head, scratch)
            elif load_int(item + 8) <= few_tokens:
                few(step, item, head, scratch)
            else:
                many(step, item, head, scratch)
            finish(step, item, head, scratch)
            unit = take_ticket(step + COUNTER)

    return attend


@kernel
def seen_of(step: int, token: int, first: int, count: int) -> tuple[int, int]:
    """Which of `count` keys, from position `first` on, the token sees: `[low, high)`."""
    position = load_int(load_int(step + POSITIONS) + token * 8)
    high = min(count, position + 1 - first)
    low = max(0, position + 1 - load_int(step + WINDOW) - first)
    return low, max(low, high)


def _make_few(target: Target, form: Format, head_dim: int, group: int) -> Any:
    """Every token by itself, keys and values read where they lie."""
    scores_few = make_scores_few(target, form, head_dim, group)
    values_few = make_values_few(form, head_dim, group)
    softmax_row = make_softmax_row()
    layout, size = Layout(target, form, head_dim, group), form.num_bytes
    sums_at, state_at, scores_at = layout.sums, layout.state, layout.scores
    max_rows = layout.max_rows
    gap = FEW_KEYS * 4

    @kernel
    def few(step: int, item: int, head: int, scratch: int) -> None:
        scale, stride = load_float(step + SCALE), load_int(step + STRIDE)
        offset = head * head_dim * size
        keys, values = load_int(step + K) + offset, load_int(step + V) + offset
        heads, tokens = load_int(step + HEADS), load_int(item + 8)
        slots = load_int(step + SLOTS) + load_int(item + 16) * 8
        count, first = load_int(item + 24), load_int(item + 32)
        scores = scratch + scores_at
        for i in range(tokens):
            token = load_int(load_int(step + ROWS) + (load_int(item) + i) * 16)
            q = load_int(step + Q) + (token * heads + head * group) * head_dim * size
            sums = scratch + sums_at + i * group * head_dim * 4
            maxima = scratch + state_at + i * group * 4
            totals, factors = maxima + max_rows * 4, maxima + max_rows * 8
            clear(sums, group * head_dim * 4)
            clear(totals, group * 4)
            for r in range(group):
                store_float(maxima + 4 * r, HIDDEN)
            low, high = seen_of(step, token, first, count)
            at = low
            while at < high:
                part = min(FEW_KEYS, high - at)
                for j in range(0, part, 16):
                    run = slots + (at + j) * 8
                    scores_few(q, keys, stride, run, part - 1 - j, scores + j * 4, gap)
                for r in range(group):
                    softmax_row(
                        scores + r * gap,
                        (part + 15) & -16,
                        scale,
                        0,
                        part,
                        maxima + 4 * r,
                        totals + 4 * r,
                        factors + 4 * r,
                    )
                values_few(scores, gap, values, stride, slots + at * 8, part, sums, factors)
                at += part

    return few


def _make_many(target: Target, form: Format, head_dim: int, group: int) -> Any:
    """All rows of an item together, keys and values packed in blocks."""
    pairs, tile_rows = target.has_pairs(form), target.tile_rows
    lines = head_dim // 2 if pairs else head_dim
    score = make_product(target, lines, KEYS, pairs)
    add_values = make_product(target, None, head_dim, pairs)
    pack_keys, pack_values = (
        make_pack_keys(target, form, head_dim),
        make_pack_values(form, head_dim, pairs),
    )
    softmax = make_softmax_block(pairs)
    load_queries = _make_load_queries(target, form, head_dim, group)
    layout, size = Layout(target, form, head_dim, group), form.num_bytes
    queries_at, scores_at, state_at = layout.queries, layout.scores, layout.state
    sums_at, keys_at, values_at = layout.sums, layout.keys, layout.values
    q_gap, gap, sum_gap, max_rows = lines * 4, KEYS * 4, head_dim * 4, layout.max_rows
    a_line = 2 if pairs else 1  # values in a line of the packed block

    @kernel
    def many(step: int, item: int, head: int, scratch: int) -> None:
        scale, stride = load_float(step + SCALE), load_int(step + STRIDE)
        offset = head * head_dim * size
        keys, values = load_int(step + K) + offset, load_int(step + V) + offset
        slots = load_int(step + SLOTS) + load_int(item + 16) * 8
        count, first = load_int(item + 24), load_int(item + 32)
        tokens, rows = load_int(item + 8), load_int(step + ROWS) + load_int(item) * 16
        maxima = scratch + state_at
        totals, factors = maxima + max_rows * 4, maxima + max_rows * 8
        num_rows = tokens * group
        load_queries(step, item, head, scratch)
        low, high = count, 0
        for i in range(tokens):
            a, b = seen_of(step, load_int(rows + i * 16), first, count)
            if a < b:
                low, high = min(low, a), max(high, b)
        at = low
        while at < high:
            part = min(KEYS, high - at)
            run = slots + at * 8
            for j in range(0, part, 16):
                pack_keys(keys, stride, run + j * 8, part - 1 - j, scratch + keys_at + j * 4)
            pack_values(values, stride, run, part, scratch + values_at)
            # A tile of rows from scores to sums: its scores stay in the first cache.
            for r in range(0, num_rows, tile_rows):
                q = scratch + queries_at + r * q_gap
                score(q, q_gap, scratch + keys_at, scratch + scores_at, gap, 0, 0)
                for row in range(r, min(r + tile_rows, num_rows)):
                    token = load_int(rows + row // group * 16)
                    a, b = seen_of(step, token, first + at, part)
                    softmax(
                        scratch + scores_at + (row - r) * gap,
                        scale,
                        a,
                        b,
                        maxima + 4 * row,
                        totals + 4 * row,
                        factors + 4 * row,
                    )
                add_values(
                    scratch + scores_at,
                    gap,
                    scratch + values_at,
                    scratch + sums_at + r * sum_gap,
                    sum_gap,
                    factors + 4 * r,
                    (part + a_line - 1) // a_line,
                )
            at += part

    return many


def _make_load_queries(target: Target, form: Format, head_dim: int, group: int) -> Any:
    """Queries of an item's head as rows of a packed matrix, and an empty softmax for each."""
    pairs = target.has_pairs(form)
    widen = make_widen_row(form)
    layout, size = Layout(target, form, head_dim, group), form.num_bytes
    queries_at, state_at, sums_at = layout.queries, layout.state, layout.sums
    max_rows = layout.max_rows
    q_bytes = head_dim * (size if pairs else 4)

    @kernel
    def load_queries(step: int, item: int, head: int, scratch: int) -> None:
        rows, heads = load_int(step + ROWS) + load_int(item) * 16, load_int(step + HEADS)
        tokens, maxima = load_int(item + 8), scratch + state_at
        clear(scratch + sums_at, tokens * group * head_dim * 4)
        clear(maxima + max_rows * 4, tokens * group * 4)
        for i in range(tokens):
            token = load_int(rows + i * 16)
            q = load_int(step + Q) + (token * heads + head * group) * head_dim * size
            place = scratch + queries_at + i * group * q_bytes
            if pairs:
                copy(q, place, group * head_dim * size)
            else:
                widen(q, place, group * head_dim)
            for r in range(i * group, (i + 1) * group):
                store_float(maxima + 4 * r, HIDDEN)

    return load_queries


def _make_finish(target: Target, form: Format, head_dim: int, group: int) -> Any:
    """Write an item's sums: as outputs, or as parts that `merge` adds up."""
    scale_row = make_scale_row(form)
    layout, size = Layout(target, form, head_dim, group), form.num_bytes
    sums_at, state_at, max_rows = layout.sums, layout.state, layout.max_rows
    row_bytes = head_dim * 4

    @kernel
    def finish(step: int, item: int, head: int, scratch: int) -> None:
        rows, heads = load_int(step + ROWS) + load_int(item) * 16, load_int(step + HEADS)
        for i in range(load_int(item + 8)):
            token, partial = load_int(rows + i * 16), load_int(rows + i * 16 + 8)
            for r in range(group):
                row = i * group + r
                sums = scratch + sums_at + row * head_dim * 4
                maximum = load_float(scratch + state_at + row * 4)
                total = load_float(scratch + state_at + (max_rows + row) * 4)
                if partial < 0:
                    place = (token * heads + head * group + r) * head_dim * size
                    scale_row(sums, head_dim, 1 / total, load_int(step + OUT) + place)
                    continue
                place = partial * heads + head * group + r
                if maximum > HIDDEN / 2:
                    copy(sums, load_int(step + PARTIAL_SUMS) + place * row_bytes, row_bytes)
                state = load_int(step + PARTIAL_STATE) + place * 8
                store_float(state, maximum)
                store_float(state + 4, total)

    return finish


def make_merge(form: Format, head_dim: int) -> Callable[[int], None]:
    """`merge(step)`: outputs of the tokens whose keys were cut into several items.

    Parts are weighted by their log-sum-exp (Dao et al., Flash-Decoding, 2023).
    """
    scale_row = make_scale_row(form)
    size, row_bytes = form.num_bytes, 4 * max(head_dim, 16)

    def merge(step: int) -> None:
        scratch = load_int(step + SCRATCH) + take_ticket(step + THREADS) * row_bytes
        heads, first_partial = load_int(step + HEADS), load_int(step + FIRST_PARTIAL)
        all_sums, all_states = load_int(step + PARTIAL_SUMS), load_int(step + PARTIAL_STATE)
        tokens = load_int(step + TOKENS)
        token = take_ticket(step + COUNTER)
        while token < tokens:
            first = load_int(first_partial + token * 8)
            last = load_int(first_partial + token * 8 + 8)
            for head in range(heads if last > first else 0):
                best = load_float(all_states + (first * heads + head) * 8)
                for part in range(first + 1, last):
                    best = max(best, load_float(all_states + (part * heads + head) * 8))
                total = load_float(step + SCALE) * 0
                fresh = 1
                for part in range(first, last):
                    state = all_states + (part * heads + head) * 8
                    if load_float(state) <= HIDDEN / 2:
                        continue
                    weight = exp_scalar(load_float(state) - best)
                    total += weight * load_float(state + 4)
                    sums = all_sums + (part * heads + head) * head_dim * 4
                    if fresh == 1:
                        set_scaled(sums, head_dim, weight, scratch)
                    else:
                        add_scaled(sums, head_dim, weight, scratch)
                    fresh = 0
                place = (token * heads + head) * head_dim * size
                scale_row(scratch, head_dim, 1 / total, load_int(step + OUT) + place)
            token = take_ticket(step + COUNTER)

    return merge
