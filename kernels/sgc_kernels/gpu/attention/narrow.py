"""Decode attention of one row, or few, over its own tokens: keys against rows x heads."""

from __future__ import annotations

import triton
import triton.language as tl

from sgc_kernels.gpu.attention.parts import first_seen, load_item
from sgc_kernels.gpu.eight_bits import beside


@triton.jit(do_not_specialize=["scale"])
def attend_narrow(
    q: tl.tensor,  # [rows, heads, head_dim]
    k: tl.tensor,  # [slots, kv heads, head_dim]
    v: tl.tensor,
    slots: tl.tensor,  # int32
    starts: tl.tensor,  # [rows]: each row's first entry of `slots`
    lens: tl.tensor,  # [rows] int32
    items: tl.tensor,
    places: tl.tensor,
    partial: tl.tensor,  # [partials, heads, head_dim] float32
    sums: tl.tensor,  # [partials, heads] float32: log2 of the sum of exponentials
    scale: tl.tensor,  # of the scores, times log2(e)
    Q_STRIDE: tl.constexpr,
    K_STRIDE: tl.constexpr,
    V_STRIDE: tl.constexpr,
    HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    DIM: tl.constexpr,
    DIM_PAD: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none
    TILE: tl.constexpr,  # query rows: places x GROUP_PAD
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """Program (kv head, item): tokens are the long side of the products, query rows the short."""
    kv_head = tl.program_id(0)
    row, start, end, first, count, part = load_item(items, tl.program_id(1))
    if count == 0:
        return
    end = tl.minimum(end, tl.load(lens + row))
    table = slots + tl.load(starts + row)
    n = tl.arange(0, TILE)
    i, h = n // GROUP_PAD, n % GROUP_PAD
    member = i < count
    live = member & (h < GROUP)
    place = places + (first + i) * 4
    rows = tl.load(place, mask=member, other=0)
    if WINDOW > 0:
        start = first_seen(start, lens, rows, member, WINDOW)
        oldest = tl.load(lens + rows, mask=member, other=0) - WINDOW
    # Tokens behind the end read the last one's slot again: no other slot may be touched.
    token = tl.arange(0, TOKENS)
    slot = tl.load(table + tl.minimum(start + token, end - 1), mask=start + token * 0 < end)

    d = tl.arange(0, DIM_PAD)
    in_dim = d < DIM
    head = kv_head * GROUP + h
    query = tl.load(
        q + (rows * Q_STRIDE + head * DIM)[None, :] + d[:, None],
        mask=live[None, :] & in_dim[:, None],
        other=0.0,
    )
    query = beside(query, k)
    top = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    out = tl.zeros([DIM_PAD, TILE], tl.float32)
    k += kv_head * DIM
    v += kv_head * DIM
    for at in tl.range(start, end, TOKENS, num_stages=STAGES):
        where = slot.to(tl.int64)
        slot = tl.load(table + tl.minimum(at + TOKENS + token, end - 1))
        k_at = k + (where * K_STRIDE)[:, None] + d[None, :]
        v_at = v + (where * V_STRIDE)[:, None] + d[None, :]
        if DIM == DIM_PAD:
            key = tl.load(k_at).to(query.dtype)
            value = tl.load(v_at).to(query.dtype)
        else:
            key = tl.load(k_at, mask=in_dim[None, :], other=0.0).to(query.dtype)
            value = tl.load(v_at, mask=in_dim[None, :], other=0.0).to(query.dtype)
        score = tl.dot(key, query, input_precision=PRECISION)
        score = tl.where((at + token < end)[:, None], score, float("-inf"))
        if WINDOW > 0:
            score = tl.where((at + token)[:, None] >= oldest[None, :], score, float("-inf"))
        new_top = tl.maximum(top, tl.max(score, axis=0) * scale)
        if WINDOW > 0:  # a row may see none of the tokens so far
            base = tl.where(new_top == float("-inf"), 0.0, new_top)
        else:
            base = new_top
        p = tl.exp2(score * scale - base[None, :])
        fade = tl.exp2(top - base)
        total = total * fade + tl.sum(p, axis=0)
        out = tl.dot(
            tl.trans(value), p.to(value.dtype), out * fade[None, :], input_precision=PRECISION
        )
        top = new_top

    number = (tl.load(place + 1, mask=member, other=0) + part).to(tl.int64) * HEADS + head
    seen = total > 0.0
    out = out / tl.where(seen, total, 1.0)[None, :]
    tl.store(
        partial + (number * DIM)[None, :] + d[:, None],
        out,
        mask=live[None, :] & in_dim[:, None],
    )
    weight = tl.where(seen, top + tl.log2(tl.where(seen, total, 1.0)), float("-inf"))
    tl.store(sums + number, weight, mask=live)
