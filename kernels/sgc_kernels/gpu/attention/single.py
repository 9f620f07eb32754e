"""Attention of a step with one new token, from the product of the layer to the heads' outputs in
one launch: norm and rotary turn of query and key, the new key and value into their slot, attention
split over programs, and the merge by the last program of each key head.

A program loads the keys and values of its first block before it waits for the kernel before it
(see `gpu.gemv`): they are of earlier steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.parts import LOG2_E
from sgc_kernels.gpu.eight_bits import beside, stored

Table = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Split:
    """How many programs share a context, and how many tokens each takes at once."""

    programs: int
    tokens: int


# Contexts up to a length, and the split for them; longer ones are left to the other kernels.
SPLITS = ((1024, Split(16, 32)), (4096, Split(32, 64)))


@triton.jit
def _turned(
    head: tl.tensor,
    norm: tl.tensor,
    cosine: tl.tensor,
    sine: tl.tensor,
    live: tl.tensor,
    eps: tl.tensor,
    DIM: tl.constexpr,
    NORM: tl.constexpr,
) -> tl.tensor:
    """Heads `[n, DIM]` at `head` `[n]`, normalised and turned; rounded as in `gpu.rotary`."""
    d = tl.arange(0, DIM)
    other = (d + DIM // 2) % DIM
    x = tl.load(head[:, None] + d[None, :], mask=live[:, None], other=0.0)
    y = tl.load(head[:, None] + other[None, :], mask=live[:, None], other=0.0)
    kind = x.dtype
    if NORM:
        number = x.to(tl.float32)
        factor = (1.0 / tl.sqrt(tl.sum(number * number, axis=1) / DIM + eps))[:, None]
        x = (number * factor).to(kind).to(tl.float32) * tl.load(norm + d).to(tl.float32)[None, :]
        y = (y.to(tl.float32) * factor).to(kind).to(tl.float32)
        y = y * tl.load(norm + other).to(tl.float32)[None, :]
        x, y = x.to(kind), y.to(kind)
    return (x.to(tl.float32) * cosine[None, :] + y.to(tl.float32) * sine[None, :]).to(kind)


@triton.jit
def _merge(
    partial: tl.tensor,
    sums: tl.tensor,
    out: tl.tensor,
    first: tl.tensor,
    kv_head: tl.tensor,
    GROUP: tl.constexpr,
    TILE: tl.constexpr,
    DIM: tl.constexpr,
    PARTS: tl.constexpr,
) -> None:
    """Add up the partial results of a key head, the last one first: its sum is a number."""
    d, n = tl.arange(0, DIM), tl.arange(0, TILE)
    live = n < GROUP
    both = live[:, None] & (d[None, :] < DIM)
    top = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    result = tl.zeros([TILE, DIM], tl.float32)
    for part in tl.static_range(PARTS):
        number = (first + PARTS - 1 - part) * TILE + n
        # Past the first-level cache, which may hold lines from before they were complete.
        weight = tl.load(sums + number, mask=live, other=0.0, cache_modifier=".cg")
        values = tl.load(
            partial + number[:, None] * DIM + d[None, :],
            mask=both,
            other=0.0,
            cache_modifier=".cg",
        )
        new_top = tl.maximum(top, weight)
        factor, fade = tl.exp2(weight - new_top), tl.exp2(top - new_top)
        total = total * fade + factor
        result = result * fade[:, None] + values * factor[:, None]
        top = new_top
    place = out + (kv_head * GROUP + n)[:, None] * DIM + d[None, :]
    tl.store(place, (result / total[:, None]).to(out.dtype.element_ty), mask=both)


@triton.jit
def _attend_single(
    qkv: tl.tensor,  # [heads + 2 * kv heads, DIM]
    cos: tl.tensor,  # [DIM]
    sin: tl.tensor,
    q_norm: tl.tensor,  # [DIM]
    k_norm: tl.tensor,
    k: tl.tensor,  # [slots, kv heads, DIM]
    v: tl.tensor,
    slots: tl.tensor,  # int32
    start: tl.tensor,  # [1]: the row's first entry of `slots`
    length: tl.tensor,  # [1] int32
    out_slot: tl.tensor,  # [1] int64
    partial: tl.tensor,  # [kv heads, PROGRAMS + 1, TILE, DIM] float32
    sums: tl.tensor,  # [kv heads, PROGRAMS + 1, TILE] float32: log2 of the sum of exponentials
    done: tl.tensor,  # [kv heads] int32, 0 between calls
    out: tl.tensor,  # [heads, DIM]
    scale: tl.tensor,
    eps: tl.tensor,
    K_STRIDE: tl.constexpr,
    V_STRIDE: tl.constexpr,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    TILE: tl.constexpr,  # query rows of the matrix product, at least GROUP
    DIM: tl.constexpr,
    TOKENS: tl.constexpr,
    PROGRAMS: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none
    NORM: tl.constexpr,
    PDL: tl.constexpr,
) -> None:
    """Program (kv head, part): a part of the tokens before, or, the last part, the new token."""
    if PDL:
        gdc_launch_dependents()
    kv_head, program = tl.program_id(0), tl.program_id(1)
    d, token, n = tl.arange(0, DIM), tl.arange(0, TOKENS), tl.arange(0, TILE)
    old = tl.load(length) - 1  # tokens before the new one
    oldest = tl.maximum(old + 1 - WINDOW, 0) if WINDOW > 0 else 0
    begin = oldest // TOKENS * TOKENS + program * TOKENS
    table = slots + tl.load(start)
    k_head, v_head = k + kv_head * DIM + d[None, :], v + kv_head * DIM + d[None, :]
    cosine, sine = tl.load(cos + d).to(tl.float32), tl.load(sin + d).to(tl.float32)
    new_slot = tl.load(out_slot)

    seen = (begin + token < old) & (begin + token >= oldest) & (program < PROGRAMS)
    slot = tl.load(table + begin + token, mask=seen, other=0).to(tl.int64)
    key = tl.load(k_head + slot[:, None] * K_STRIDE, mask=seen[:, None], other=0.0)
    value = tl.load(v_head + slot[:, None] * V_STRIDE, mask=seen[:, None], other=0.0)
    if PDL:
        gdc_wait()

    live = n < GROUP
    query = _turned(qkv + (kv_head * GROUP + n) * DIM, q_norm, cosine, sine, live, eps, DIM, NORM)
    query = beside(query, k)
    key, value = key.to(query.dtype), value.to(query.dtype)
    if program < PROGRAMS:
        score = tl.dot(key, tl.trans(query), input_precision="ieee") * scale
        score = tl.where(seen[:, None], score, float("-inf"))
        top = tl.max(score, axis=0)
        base = tl.where(top == float("-inf"), 0.0, top)
        p = tl.exp2(score - base[None, :])
        total = tl.sum(p, axis=0)
        result = tl.dot(tl.trans(value), p.to(value.dtype), input_precision="ieee")
        for at in tl.range(begin + PROGRAMS * TOKENS, old, PROGRAMS * TOKENS):
            seen = at + token < old
            slot = tl.load(table + at + token, mask=seen, other=0).to(tl.int64)
            key = tl.load(k_head + slot[:, None] * K_STRIDE, mask=seen[:, None], other=0.0)
            value = tl.load(v_head + slot[:, None] * V_STRIDE, mask=seen[:, None], other=0.0)
            key, value = key.to(query.dtype), value.to(query.dtype)
            score = tl.dot(key, tl.trans(query), input_precision="ieee") * scale
            score = tl.where(seen[:, None], score, float("-inf"))
            new_top = tl.maximum(top, tl.max(score, axis=0))
            base = tl.where(new_top == float("-inf"), 0.0, new_top)
            p = tl.exp2(score - base[None, :])
            fade = tl.exp2(top - base)
            total = total * fade + tl.sum(p, axis=0)
            result = tl.dot(
                tl.trans(value), p.to(value.dtype), result * fade[None, :], input_precision="ieee"
            )
            top = new_top
    else:
        one = tl.arange(0, 1)
        place = qkv + (HEADS + kv_head + one) * DIM
        new_key = _turned(place, k_norm, cosine, sine, one == 0, eps, DIM, NORM)
        new_value = tl.load(place[:, None] + KV_HEADS * DIM + d[None, :])
        new_key, new_value = stored(new_key, k), stored(new_value, v)
        tl.store(k_head + new_slot * K_STRIDE, new_key)
        tl.store(v_head + new_slot * V_STRIDE, new_value)
        top = tl.sum(query.to(tl.float32) * new_key.to(tl.float32), axis=1) * scale
        total = tl.full([TILE], 1.0, tl.float32)
        result = tl.trans(new_value.to(tl.float32)) * total[None, :]

    number = (kv_head * (PROGRAMS + 1) + program) * TILE + n
    known = total > 0.0
    whole = tl.where(known, total, 1.0)
    both = live[None, :] & (d[:, None] < DIM)
    tl.store(partial + number[None, :] * DIM + d[:, None], result / whole[None, :], mask=both)
    tl.store(sums + number, tl.where(known, top + tl.log2(whole), float("-inf")), mask=live)
    tl.debug_barrier()
    if tl.atomic_add(done + kv_head, 1, sem="acq_rel") == PROGRAMS:
        tl.store(done + kv_head, 0)
        first = kv_head * (PROGRAMS + 1)
        _merge(partial, sums, out, first, kv_head, GROUP, TILE, DIM, PROGRAMS + 1)


def can_attend(shape: AttentionShape) -> bool:
    """Whether there is such a kernel for the shape."""
    return shape.head_dim in (64, 128, 256) and shape.num_heads // shape.num_kv_heads <= 16


def split_for(length: int) -> Split | None:
    """The split for contexts of up to `length` tokens; None: other kernels are faster."""
    return next((split for longest, split in SPLITS if length <= longest), None)


class SingleAttention:
    """The kernel with its memory, for one model; one call at a time may use it."""

    def __init__(self, shape: AttentionShape, device: torch.device) -> None:
        self.shape = shape
        group = shape.num_heads // shape.num_kv_heads
        self._tile = max(8, triton.next_power_of_2(group))
        most = max(split.programs for _, split in SPLITS)
        size = (shape.num_kv_heads, most + 1, self._tile)
        self._partial = torch.empty((*size, shape.head_dim), dtype=torch.float32, device=device)
        self._sums = torch.empty(size, dtype=torch.float32, device=device)
        self._done = torch.zeros(shape.num_kv_heads, dtype=torch.int32, device=device)

    def run(
        self,
        qkv: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor] | None,
        eps: float,
        table: Table,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        start: torch.Tensor,
        length: torch.Tensor,
        out_slot: torch.Tensor,
        split: Split,
        window: int | None = None,
        pdl: bool = False,
    ) -> torch.Tensor:
        """What `turn_and_store` and decode attention give for one row, `[1, heads * head_dim]`.

        Args:
            qkv: `[1, (num_heads + 2 * num_kv_heads) * head_dim]`.
            norms: of queries and keys, `[head_dim]` each.
            table: see `rotary_table`, of the one position.
            slots: int32; the row's lie from `start` (`[1]`) on.
            length: `[1]` int32, the new token included.
            out_slot: `[1]` int64, the new token's.
            pdl: start while the kernel before is running; see `gpu.gemv`.
        """
        shape = self.shape
        for pool in (k_cache, v_cache):
            assert pool.stride()[1:] == (shape.head_dim, 1), "heads of a slot lie side by side"
        assert qkv.is_contiguous()
        assert qkv.shape[0] == 1, "one token"
        out = qkv.new_empty(1, shape.num_heads * shape.head_dim)
        options = {"launch_pdl": True} if pdl else {}
        _attend_single[(shape.num_kv_heads, split.programs + 1)](
            qkv,
            *table,
            *(norms or (None, None)),
            k_cache,
            v_cache,
            slots,
            start,
            length,
            out_slot,
            self._partial,
            self._sums,
            self._done,
            out,
            shape.scale * LOG2_E,
            eps,
            K_STRIDE=k_cache.stride(0),
            V_STRIDE=v_cache.stride(0),
            HEADS=shape.num_heads,
            KV_HEADS=shape.num_kv_heads,
            GROUP=shape.num_heads // shape.num_kv_heads,
            TILE=self._tile,
            DIM=shape.head_dim,
            TOKENS=split.tokens,
            PROGRAMS=split.programs,
            WINDOW=window or 0,
            NORM=norms is not None,
            PDL=pdl,
            num_warps=4,
            **options,
        )
        return out
