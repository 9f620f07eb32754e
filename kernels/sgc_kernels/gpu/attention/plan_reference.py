"""Spans and items of decode attention in NumPy: the reference of `plan_compiled`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from sgc_kernels.gpu.attention.items import (
    COUNT,
    END,
    FIRST,
    ITEM,
    PART,
    PLACE,
    PLACE_BASE,
    PLACE_PARTS,
    PLACE_ROW,
    ROW,
    START,
)
from sgc_kernels.gpu.attention.plan_rules import MAX_DEPTH, Rules, Sizes, Totals

Ints = NDArray[np.int32]
_Longs = NDArray[np.int64]
# Columns of a span.
_FIRST, _COUNT, _START, _END, _PARENT, _DEPTH = range(6)
_Span = tuple[int, int, int, int, int, int]


def spans(rules: Rules, lcp: Ints, lens: Ints, most: int) -> tuple[Ints, Totals]:
    """The spans of rows in depth-first order, `[spans, 6]`, parents before children, in blocks of
    at most `most` rows; `lcp` and `lens` as in `Planner.plan`."""
    lengths = lens.tolist()
    shared = [min(some) for some in zip(lcp.tolist(), lengths, [0, *lengths], strict=False)]
    blocks = cut(rules, shared, most)
    parts = [_block(rules, shared[a:b], lengths[a:b]) for a, b in blocks]
    found = np.array(list(chain.from_iterable(parts)), np.int32).reshape(-1, 6)
    counts = np.array([len(some) for some in parts], np.int64)
    found[:, _FIRST] += np.repeat([a for a, _ in blocks], counts).astype(np.int32)
    shift = np.repeat(np.cumsum(counts) - counts, counts).astype(np.int32)
    found[:, _PARENT] += np.where(found[:, _PARENT] < 0, 0, shift)
    return found, _totals(rules, found)


def _totals(rules: Rules, found: Ints) -> Totals:
    length = (found[:, _END] - found[:, _START]).astype(np.int64)
    wide, few, own = _kinds(rules, found)
    return Totals(
        wide=int(wide.sum()),
        largest_wide=int(found[wide, _COUNT].max(initial=0)),
        wide_tokens=int(length[wide].sum()),
        narrow=int((few | own).sum()),
        narrow_tokens=int(length[~wide].sum()),
        own_tokens=int(length[own].sum()),
        own_squares=int((length[own] ** 2).sum()),
    )


def _kinds(rules: Rules, found: Ints) -> tuple[NDArray[np.bool_], ...]:
    """Which spans are wide, few and own."""
    wide = found[:, _COUNT] > rules.few_rows
    few = ~wide & (found[:, _COUNT] > rules.own_rows)
    return wide, few, ~wide & ~few


def cut(rules: Rules, lcp: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Blocks of at most `most` rows, cut where neighbours share least."""
    blocks = []
    stack = [(0, len(lcp))] if len(lcp) else []
    while stack:
        first, last = stack.pop()
        if last - first <= most:
            blocks.append((first, last))
            continue
        borders = lcp[first + 1 : last]
        least = min(borders)
        # A little more is given up for blocks that are full: tokens of one row, say, share one
        # token more at each border.
        most_lost = least + max(2 * rules.tuning.least_shared, least // 16)
        middle = first + most * -(-(last - first) // (2 * most))
        places = (i for i, n in enumerate(borders, first + 1) if n <= most_lost)
        at = min(places, key=lambda i: abs(i - middle))
        stack += [(at, last), (first, at)]
    return blocks


def _block(rules: Rules, lcp: Sequence[int], lens: Sequence[int]) -> list[_Span]:
    """The spans of one block, from the values of its own rows. First places and parents count from
    the block's own."""
    window = rules.window
    oldest = [0 if window is None else max(0, n - window) for n in lens]
    found: list[_Span] = []
    stack = [(0, len(lens), 0, -1, 0)]
    while stack:
        first, last, start, parent, depth = stack.pop()
        start = max(start, min(oldest[first:last]))
        if last - first == 1:
            found.append((first, 1, start, lens[first], parent, depth))
            continue
        borders = lcp[first + 1 : last]
        common, worth = min(borders), rules.worth_sharing(last - first)
        if common - start >= worth and depth < MAX_DEPTH:
            found.append((first, last - first, start, common, parent, depth))
            start, parent, depth = common, len(found) - 1, depth + 1
        # Fewer rows would have to share more: no span goes across a border below this.
        least = start + worth if depth < MAX_DEPTH else math.inf
        cuts = [i for i, n in enumerate(borders, first + 1) if n < least]
        for a, b in zip([*reversed(cuts), first], [last, *reversed(cuts)], strict=True):
            stack.append((a, b, start, parent, depth))
    return found


def items(
    rules: Rules, found: Ints, sizes: Sizes, order: Ints, room: int
) -> tuple[tuple[Ints, Ints, Ints], Ints, Ints]:
    """Wide, few and own items, the places, and how far the row at each place may grow: by `room`,
    where it has tokens of its own; `order[place]` is the batch row that stands there."""
    length = (found[:, _END] - found[:, _START]).astype(np.int64)
    kinds = _kinds(rules, found)
    aligned = np.where(kinds[2], sizes.step, 64)
    pieces = _pieces(rules, found, length, np.where(kinds[0], sizes.wide, sizes.narrow), aligned)
    owner = np.repeat(np.arange(len(found)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    size, parts = _even(length, pieces, aligned), _parts(found, pieces)
    every = np.zeros((len(owner), ITEM), np.int32)
    every[:, ROW] = order[found[owner, _FIRST]]
    every[:, START] = found[owner, _START] + number * size[owner]
    every[:, END] = np.minimum(every[:, START] + size[owner], found[owner, _END])
    every[:, FIRST] = found[owner, _FIRST]
    every[:, COUNT] = found[owner, _COUNT]
    every[:, PART] = parts[owner] + number
    leaf = np.flatnonzero(found[:, _COUNT] == 1)
    at, grows = found[leaf, _FIRST], pieces[leaf] > 0
    every[(np.cumsum(pieces) - 1)[leaf[grows]], END] += room
    places = np.zeros((len(order), PLACE), np.int32)
    places[:, PLACE_ROW] = order
    places[at, PLACE_PARTS] = parts[leaf] + pieces[leaf]
    places[:, PLACE_BASE] = np.cumsum(places[:, PLACE_PARTS]) - places[:, PLACE_PARTS]
    ends = np.empty(len(order), np.int32)
    ends[at] = found[leaf, _END] + np.where(grows, room, 0)
    wide, few, own = (every[kind[owner]] for kind in kinds)
    return (wide, few, own), places, ends


def _pieces(rules: Rules, found: Ints, length: _Longs, sizes: _Longs, aligned: _Longs) -> _Longs:
    """How many items each span becomes; fewer where there would be more than there should."""
    kinds, most = _kinds(rules, found), rules.most(int((found[:, _COUNT] == 1).sum()))
    while True:
        pieces = _divide_up(length, sizes)
        even = _even(length, pieces, aligned)
        pieces = _divide_up(length, even)
        partials = int((pieces * found[:, _COUNT]).sum())
        too_many = np.full(len(pieces), partials > rules.max_partials)
        for kind, limit in zip(kinds, most, strict=True):
            if int(pieces[kind].sum()) > limit:
                too_many |= kind
        too_many &= pieces > 1
        if not too_many.any():
            return pieces
        sizes = np.where(too_many, sizes * 2, sizes)


def _parts(found: Ints, pieces: _Longs) -> _Longs:
    """Partial results of the spans above each."""
    parts = np.zeros(len(found), np.int64)
    for depth in range(1, int(found[:, _DEPTH].max(initial=0)) + 1):
        here = np.flatnonzero(found[:, _DEPTH] == depth)
        parent = found[here, _PARENT]
        parts[here] = parts[parent] + pieces[parent]
    return parts


def _divide_up(length: _Longs, size: _Longs) -> _Longs:
    """`length / size`, rounded up; where size is 0, by 1."""
    found: _Longs = -(-length // np.maximum(size, 1))
    return found


def _even(length: _Longs, pieces: _Longs, aligned: _Longs) -> _Longs:
    """The size of a piece where `length` is cut evenly into `pieces` multiples of `aligned`."""
    return _divide_up(_divide_up(length, pieces), aligned) * aligned
