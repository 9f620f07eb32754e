"""Running softmax over the scores of a query, in vectors.

State of a row: the largest score seen, the sum of weights, and the factor that brings what was
added up before to the new maximum. Milakov and Gimelshein, Online normalizer calculation for
softmax, 2018.
"""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir

from sgc_kernels.compiled.lanes import F32, I32, LANES, VF32, VI32, Emitter
from sgc_kernels.compiled.rows import at, each
from sgc_kernels.compiled.target import KEYS, Format
from sgc_kernels.compiled.translate import emitted

HIDDEN = -1e30  # score of what a query may not see; finite, so that differences are
_LOG2_E = 1.4426950408889634


def make_softmax_row() -> Any:
    """`f(scores, width, scale, low, high, maximum, total, factor)`: one row of scores.

    `width` float32 (a multiple of 16), of which those in `[low, high)` are seen; they
    become weights. The last three are addresses of the row's state.
    """

    @emitted
    def softmax_row(
        e: Emitter,
        scores: ir.Value,
        width: ir.Value,
        scale: ir.Value,
        low: ir.Value,
        high: ir.Value,
        maximum: ir.Value,
        total: ir.Value,
        factor: ir.Value,
    ) -> None:
        best = _mask_scores(e, scores, width, scale, (low, high))
        base = _new_base(e, e.b.load(best), maximum, factor)
        added = e.variable(e.constant(0.0))
        shift = e.splat(base)

        def weigh(i: ir.Value) -> None:
            place = at(e, scores, i, 4)
            weight = e.exp(e.b.fsub(e.raw_load(VF32, place, 4), shift))
            e.raw_store(weight, place, 4)
            e.b.store(e.b.fadd(e.b.load(added), weight), added)

        each(e, width, weigh)
        kept = e.b.fmul(e.raw_load(F32, total, 4), e.raw_load(F32, factor, 4))
        e.raw_store(e.b.fadd(kept, e.reduce(e.b.load(added))), total, 4)

    return softmax_row


def _mask_scores(
    e: Emitter, scores: ir.Value, width: ir.Value, scale: ir.Value, seen: tuple[ir.Value, ir.Value]
) -> ir.Value:
    """Scale scores, hide those outside `seen`; a variable with the largest in each lane."""
    scale = e.splat(scale)
    low, high = (e.splat(e.b.trunc(x, I32)) for x in seen)
    lanes = ir.Constant(VI32, list(range(LANES)))
    best = e.variable(e.constant(HIDDEN))

    def mask(i: ir.Value) -> None:
        place = at(e, scores, i, 4)
        column = e.b.add(e.splat(e.b.trunc(i, I32)), lanes)
        inside = e.b.and_(e.b.icmp_signed(">=", column, low), e.b.icmp_signed("<", column, high))
        score = e.b.fmul(e.raw_load(VF32, place, 4), scale)
        score = e.b.select(inside, score, e.constant(HIDDEN))
        e.raw_store(score, place, 4)
        e.b.store(e.maximum(e.b.load(best), score), best)

    each(e, width, mask)
    return best


def make_softmax_block(pairs: bool) -> Any:
    """`f(scores, scale, low, high, maximum, total, factor)`: as `softmax_row` for `KEYS` scores.

    With `pairs` the weights are written as bfloat16, in the first half of the scores' place.
    """
    count = KEYS // LANES

    @emitted
    def softmax_block(
        e: Emitter,
        scores: ir.Value,
        scale: ir.Value,
        low: ir.Value,
        high: ir.Value,
        maximum: ir.Value,
        total: ir.Value,
        factor: ir.Value,
    ) -> None:
        first, width = (e.splat(e.b.trunc(x, I32)) for x in (low, e.b.sub(high, low)))
        scale = e.splat(scale)
        parts = []
        for i in range(count):
            columns = ir.Constant(VI32, list(range(i * LANES, (i + 1) * LANES)))
            seen = e.b.icmp_unsigned("<", e.b.sub(columns, first), width)
            score = e.b.fmul(e.raw_load(VF32, e.offset(scores, i * LANES * 4), 4), scale)
            parts.append(e.b.select(seen, score, e.constant(HIDDEN)))
        base = _new_base(e, functools.reduce(e.maximum, parts), maximum, factor)
        weights = [_weight(e, part, base, pairs) for part in parts]
        form = Format.BFLOAT16 if pairs else Format.FLOAT32
        for i, weight in enumerate(weights):
            e.store(form, weight, e.offset(scores, i * LANES * form.num_bytes))
        # The sum of what is multiplied: rounding must not make all weights too large.
        weights = [e.rounded(form, weight) for weight in weights]
        added = e.reduce(functools.reduce(e.b.fadd, weights))
        kept = e.b.fmul(e.raw_load(F32, total, 4), e.raw_load(F32, factor, 4))
        e.raw_store(e.b.fadd(kept, added), total, 4)

    return softmax_block


def _new_base(e: Emitter, best: ir.Value, maximum: ir.Value, factor: ir.Value) -> ir.Value:
    """Update a row's maximum and factor by new scores; what is subtracted from these."""
    before = e.raw_load(F32, maximum, 4)
    found = e.reduce(best, maximum=True)
    now = e.b.select(e.b.fcmp_ordered(">", before, found), before, found)
    # A row that has seen nothing yet: its weights must be 0 and not exp(0).
    base = e.b.select(e.b.fcmp_ordered(">", now, F32(HIDDEN / 2)), now, F32(HIDDEN / 4))
    change = e.b.extract_element(e.exp(e.splat(e.b.fsub(before, base))), I32(0))
    e.raw_store(now, maximum, 4)
    e.raw_store(change, factor, 4)
    return base


def _weight(e: Emitter, score: ir.Value, base: ir.Value, pairs: bool) -> ir.Value:
    if not pairs:
        return e.exp(e.b.fsub(score, e.splat(base)))
    shift = e.splat(e.b.fmul(base, F32(-_LOG2_E)))
    return e.coarse_exp2(e.fma(score, e.constant(_LOG2_E), shift))
