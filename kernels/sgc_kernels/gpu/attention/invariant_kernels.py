"""Attention whose result for a token depends on that token's context alone, in Triton.

The keys of a context are cut into chunks at fixed places. A token's result is the sum over its
chunks in order, each with a softmax of its own. Whoever computes a chunk, beside whichever other
tokens, does the same operations with the same operands: lines of a tile know nothing of each other,
keys that a line does not see change no bit of it, and chunks are put together by the same function
in a program's registers and in the merge. Fused multiplications and additions are written out, so
that no compiler chooses them.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.eight_bits import beside


@triton.jit
def _load_kv(
    cache: tl.tensor,
    slot: tl.tensor,
    stride: tl.tensor,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WIDE: tl.constexpr,
) -> tl.tensor:
    """Keys or values of some slots, `[KEYS, DIM_PAD]`."""
    d = tl.arange(0, DIM_PAD)
    row = slot.to(tl.int64) if WIDE else slot
    place = cache + (row * stride)[:, None] + d[None, :]
    if DIM == DIM_PAD:
        found = tl.load(place)
    else:
        found = tl.load(place, mask=(d < DIM)[None, :], other=0.0)
    return found


@triton.jit
def _add(
    acc: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    more: tl.tensor,
    more_top: tl.tensor,
    more_total: tl.tensor,
) -> tuple[tl.tensor, ...]:
    """Put a chunk behind those before it; one that is all hidden changes no bit."""
    highest = tl.maximum(top, more_top)
    base = tl.where(highest == float("-inf"), 0.0, highest)
    fade = tl.exp2(top - base)
    factor = tl.exp2(more_top - base)
    acc = tl.fma(acc, fade[:, None], more * factor[:, None])
    total = tl.fma(total, fade, more_total * factor)
    return acc, highest, total


@triton.jit
def _walk(
    acc: tl.tensor,
    top: tl.tensor,
    total: tl.tensor,
    sum_acc: tl.tensor,
    sum_top: tl.tensor,
    sum_total: tl.tensor,
    query: tl.tensor,
    k: tl.tensor,
    v: tl.tensor,
    table: tl.tensor,
    start: tl.tensor,
    stop: tl.tensor,
    end: tl.tensor,
    length: tl.tensor,
    number: tl.tensor,
    head: tl.tensor,
    partial: tl.tensor,
    tops: tl.tensor,
    totals: tl.tensor,
    scale: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,
    MASKED: tl.constexpr,
    FOLDS: tl.constexpr,
) -> tuple[tl.tensor, ...]:
    """Chunks from key `start` to `stop`, of an item that goes on to `end`; `acc`, `top` and
    `total` are those of the last one, which the sum does not hold yet."""
    key = tl.arange(0, CHUNK)
    d = tl.arange(0, DIM_PAD)
    # The next chunk's slots are read a chunk ahead. Keys behind the end read the last slot again.
    slot = tl.load(table + tl.minimum(start + key, end - 1), mask=start + key * 0 < stop, other=0)
    for at in tl.range(start, stop, CHUNK, num_stages=STAGES):
        keys = _load_kv(k, slot, k_stride, DIM, DIM_PAD, WIDE).to(query.dtype)
        values = _load_kv(v, slot, v_stride, DIM, DIM_PAD, WIDE).to(query.dtype)
        slot = tl.load(table + tl.minimum(at + CHUNK + key, end - 1))
        score = tl.dot(query, tl.trans(keys), input_precision=PRECISION)
        if MASKED:
            seen = (at + key)[None, :] < length[:, None]
            if WINDOW > 0:
                seen = seen & ((at + key)[None, :] >= (length - WINDOW)[:, None])
            score = tl.where(seen, score, float("-inf"))
        highest = tl.max(score, axis=1) * scale
        base = tl.where(highest == float("-inf"), 0.0, highest)
        weight = tl.exp2(tl.fma(score, scale, -base[:, None]))
        if FOLDS:  # the chunk before, whose last product has run meanwhile
            sum_acc, sum_top, sum_total = _add(sum_acc, sum_top, sum_total, acc, top, total)
        top, total = highest, tl.sum(weight, axis=1)
        acc = tl.dot(weight.to(values.dtype), values, input_precision=PRECISION)
        if not FOLDS:
            there = at < length
            place = (number + at // CHUNK).to(tl.int64) * HEADS + head
            place_d = (place * DIM)[:, None] + d[None, :]
            tl.store(partial + place_d, acc, mask=there[:, None] & (d < DIM)[None, :])
            tl.store(tops + place, top, mask=there)
            tl.store(totals + place, total, mask=there)
    return acc, top, total, sum_acc, sum_top, sum_total


@triton.jit(do_not_specialize=["scale"])
def attend_chunks(
    q: tl.tensor,  # [rows, heads, head_dim]
    k: tl.tensor,  # [slots, kv heads, head_dim]
    v: tl.tensor,
    slots: tl.tensor,  # int32
    starts: tl.tensor,  # [rows]: each row's first entry of `slots`
    lens: tl.tensor,  # [rows] int32: the keys a row sees
    items: tl.tensor,  # see `invariant_plan`
    places: tl.tensor,
    partial: tl.tensor,  # [partials, heads, head_dim] float32
    tops: tl.tensor,  # [partials, heads] float32: the highest score, base 2
    totals: tl.tensor,  # [partials, heads] float32: the sum of weights below it
    out: tl.tensor,  # [rows, heads, head_dim]
    scale: tl.tensor,  # of the scores, times log2(e)
    q_stride: tl.tensor,
    k_stride: tl.tensor,
    v_stride: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none
    LINES: tl.constexpr,  # of a tile: tokens x query heads of a key head
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDE: tl.constexpr,  # places in the caches need 64 bits
    FOLDS: tl.constexpr,  # chunks are put together; else each is a partial result
) -> None:
    """Program: an item for one key head."""
    kv_head = tl.program_id(0) % KV_HEADS
    item = items + tl.program_id(0) // KV_HEADS * 8
    count = tl.load(item + 4)
    if count == 0:
        return
    reader = tl.load(item)
    start = tl.load(item + 1)
    end = tl.minimum(tl.load(item + 2), tl.load(lens + reader))
    first = tl.load(item + 3)
    if (end <= start) & (start > 0):
        return
    table = slots + tl.load(starts + reader)
    GROUP: tl.constexpr = HEADS // KV_HEADS
    line = tl.arange(0, LINES)
    member = line // GROUP < count
    head = kv_head * GROUP + line % GROUP
    place = places + (first + line // GROUP) * 4
    row = tl.load(place, mask=member, other=0)
    base = tl.load(place + 1, mask=member, other=0)
    folded = tl.load(place + 2, mask=member, other=0)
    length = tl.load(lens + row, mask=member, other=0)
    d = tl.arange(0, DIM_PAD)
    live = member[:, None] & (d < DIM)[None, :]
    query_at = row.to(tl.int64) * q_stride + head * DIM
    query = beside(tl.load(q + query_at[:, None] + d[None, :], mask=live, other=0.0), k)
    k += kv_head * DIM
    v += kv_head * DIM

    # Lines without a token see no key.
    acc = tl.zeros((LINES, DIM_PAD), tl.float32)
    top = tl.full((LINES,), float("-inf"), tl.float32)
    total = tl.zeros((LINES,), tl.float32)
    sum_acc, sum_top, sum_total = acc, top, total
    least = tl.min(tl.where(member, length, 2147483647), axis=0)
    number = base + 1 - folded
    if WINDOW > 0:
        start = tl.maximum(start, (least - WINDOW) // CHUNK * CHUNK)
    whole = start
    if FOLDS and WINDOW == 0:  # keys that every line sees
        whole = start + tl.maximum(tl.minimum(least, end) - start, 0) // CHUNK * CHUNK
        acc, top, total, sum_acc, sum_top, sum_total = _walk(
            acc, top, total, sum_acc, sum_top, sum_total,
            query, k, v, table, start, whole, end, length, number, head,
            partial, tops, totals, scale, k_stride, v_stride,
            HEADS, DIM, DIM_PAD, WINDOW, CHUNK, STAGES, PRECISION, WIDE, False, FOLDS,
        )  # fmt: skip
    acc, top, total, sum_acc, sum_top, sum_total = _walk(
        acc, top, total, sum_acc, sum_top, sum_total,
        query, k, v, table, whole, end, end, length, number, head,
        partial, tops, totals, scale, k_stride, v_stride,
        HEADS, DIM, DIM_PAD, WINDOW, CHUNK, STAGES, PRECISION, WIDE, True, FOLDS,
    )  # fmt: skip
    if FOLDS:
        sum_acc, sum_top, sum_total = _add(sum_acc, sum_top, sum_total, acc, top, total)
        final = member & (base < 0)
        result = sum_acc / tl.where(sum_total > 0.0, sum_total, 1.0)[:, None]
        out_at = (row.to(tl.int64) * out_stride + head * DIM)[:, None] + d[None, :]
        tl.store(out + out_at, result.to(out.dtype.element_ty), mask=final[:, None] & live)
        kept = member & (base >= 0)
        at = base.to(tl.int64) * HEADS + head
        tl.store(partial + (at * DIM)[:, None] + d[None, :], sum_acc, mask=kept[:, None] & live)
        tl.store(tops + at, sum_top, mask=kept)
        tl.store(totals + at, sum_total, mask=kept)


@triton.jit
def merge_chunks(
    partial: tl.tensor,
    tops: tl.tensor,
    totals: tl.tensor,
    lens: tl.tensor,
    places: tl.tensor,
    out: tl.tensor,
    out_stride: tl.tensor,
    HEADS: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WINDOW: tl.constexpr,
    CHUNK: tl.constexpr,
    SOME_HEADS: tl.constexpr,
    AT_ONCE: tl.constexpr,
) -> None:
    """Program (heads, place): the chunks of one row in order, AT_ONCE of them read together."""
    place = places + tl.program_id(1) * 4
    row = tl.load(place)
    base = tl.load(place + 1)
    if (row < 0) | (base < 0):
        return
    length = tl.load(lens + row)
    folded = tl.load(place + 2)
    count = 1 + tl.maximum(tl.cdiv(length, CHUNK) - folded, 0)
    head = tl.program_id(0) * SOME_HEADS + tl.arange(0, SOME_HEADS)
    d = tl.arange(0, DIM_PAD)
    in_heads = head < HEADS
    live = in_heads[:, None] & (d < DIM)[None, :]
    acc = tl.zeros((SOME_HEADS, DIM_PAD), tl.float32)
    top = tl.full((SOME_HEADS,), float("-inf"), tl.float32)
    total = tl.zeros((SOME_HEADS,), tl.float32)
    for part in tl.range(0, count, AT_ONCE):
        for j in tl.static_range(AT_ONCE):
            there = part + j < count
            if WINDOW > 0:  # chunks that the row does not see are not computed
                there = there & ((folded + part + j) * CHUNK > length - WINDOW)
            here = in_heads & there
            at = (base + part + j).to(tl.int64) * HEADS + head
            more_top = tl.load(tops + at, mask=here, other=float("-inf"))
            more_total = tl.load(totals + at, mask=here, other=0.0)
            at_d = (at * DIM)[:, None] + d[None, :]
            more = tl.load(partial + at_d, mask=live & there, other=0.0)
            acc, top, total = _add(acc, top, total, more, more_top, more_total)
    result = acc / tl.where(total > 0.0, total, 1.0)[:, None]
    out_at = (row.to(tl.int64) * out_stride + head * DIM)[:, None] + d[None, :]
    tl.store(out + out_at, result.to(out.dtype.element_ty), mask=live)
