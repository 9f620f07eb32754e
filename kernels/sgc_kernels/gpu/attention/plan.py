"""Plans decode attention from how many tokens neighbouring rows share.

The batch is cut into blocks of neighbours where they share least; a block becomes a tree of
spans; long spans are split into items, and partial results are numbered. NumPy only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    Grids,
    Launch,
)
from sgc_kernels.gpu.attention.tuning import DEFAULT, Tuning

Ints = NDArray[np.int32]
_Longs = NDArray[np.int64]
_MAX_DEPTH = 6  # spans above a row's own; bounds the partial results of a row
PARTS_A_ROW = _MAX_DEPTH + 2
# Columns of a span.
_FIRST, _COUNT, _START, _END, _PARENT, _DEPTH = range(6)
_Span = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan needs to know of model and kernels."""

    kv_heads: int
    group: int  # query heads a kv head
    token_bytes: int  # of a token's keys and values, all heads
    own_rows: int  # places the kernel for own spans takes
    few_rows: int
    wide_rows: int
    max_partials: int
    max_items: int  # of each kind
    window: int | None = None
    tuning: Tuning = DEFAULT

    def most(self, rows: int) -> tuple[int, int, int]:
        """Wide, few and own items that a plan of so many rows keeps to where it can, so that one
        recording serves nearly every plan. More rows have no fewer."""
        tuning, heads = self.tuning, self.kv_heads
        wide = rows // 4 + -(-tuning.many_programs // heads) + 8
        few = rows // 4 + -(-tuning.least_programs // heads)
        own = rows + rows // 2 + -(-tuning.narrow_programs // heads)
        return (
            min(wide, self.max_items) if rows > self.few_rows else 0,
            min(few, self.max_items) if rows > self.own_rows else 0,
            min(own, self.max_items),
        )

    def grids(self, launch: Launch) -> Grids:
        """See `RowAttention.grids`."""
        wide, few, own = self.most(launch.rows)
        general = Launch(launch.rows, wide, few, own, self.tile(launch.rows), launch.tokens)
        if not general.covers(launch):
            general = general.joined(launch).rounded()
        if launch.wide == 0:
            return Grids(general, general)
        some = min(general.wide, self.tuning.few_programs // self.kv_heads)
        wide = some if launch.wide <= some else general.wide
        return Grids(general, replace(general, wide=wide, tile=launch.tile))

    def tile(self, rows: int) -> int:
        """Query rows a wide program holds, where no span has more than so many rows."""
        return 64 if min(rows, self.wide_rows) * _pad(self.group) <= 64 else 128


@dataclass(frozen=True, slots=True)
class Plan:
    """Items for the kernels. Valid while each row has at most `ends` tokens, in the same order."""

    wide: Ints  # [items, 8]
    few: Ints
    own: Ints
    places: Ints  # [rows, 4]
    ends: Ints  # [rows] by place: how far the rows may grow
    launch: Launch

    def holds(self, lens: Ints) -> bool:
        """Whether the plan is valid for rows (by batch row) that have grown to `lens`."""
        return bool((lens[self.places[:, PLACE_ROW]] <= self.ends).all())


class Planner:
    """Makes plans for one model; keeps nothing between calls."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def plan(
        self,
        lcp: Sequence[int] | Ints,
        lens: Sequence[int] | Ints,
        room: int = 16,
        order: Ints | None = None,
    ) -> Plan:
        """Plan a batch whose rows stand in depth-first order.

        Args:
            lcp: for each place, how many leading tokens its row shares with the row before (the
                first one's is not looked at). Shared tokens lie in the same slots.
            lens: tokens of the row at each place, the new one included.
            order: the batch row at each place; None: place = row.
            room: tokens by which each row may grow before the next plan.
        """
        lens = _list(lens)
        lcp = [min(some) for some in zip(_list(lcp), lens, [0, *lens], strict=False)]
        spans = self._spans(lcp, lens, room)
        return self._assemble(
            spans, np.arange(len(lens), dtype=np.int32) if order is None else order
        )

    def _spans(self, lcp: list[int], lens: list[int], room: int) -> Ints:
        """The spans of all rows, in blocks as large as pays."""
        most = self._rules.wide_rows
        spans = self._cut_spans(lcp, lens, room, most)
        if not self._is_crowded(spans):
            return spans
        halves = self._cut_spans(lcp, lens, room, most // 2)
        wide_us, other = self._work(spans)
        halves_us, other_of_halves = self._work(halves)
        # Programs of half the rows: twice as many live on a multiprocessor.
        pays = halves_us / 2 < 0.8 * wide_us and other_of_halves < 1.1 * other
        return halves if pays else spans

    def _is_crowded(self, spans: Ints) -> bool:
        """Whether wide programs wait for each other, and would fit better in smaller blocks."""
        rules, counts = self._rules, spans[:, _COUNT]
        if rules.wide_rows // 2 <= 2 * rules.few_rows or rules.tile(rules.wide_rows // 2) > 64:
            return False
        wide = int((counts > rules.few_rows).sum())
        large = wide * rules.kv_heads > rules.tuning.many_programs
        return large and int(counts.max(initial=0)) > rules.wide_rows // 2

    def _work(self, spans: Ints) -> tuple[float, int]:
        """Microseconds of wide programs for one head, and tokens of the other spans."""
        length, tuning = spans[:, _END] - spans[:, _START], self._rules.tuning
        wide = spans[:, _COUNT] > self._rules.few_rows
        blocks_us = float(length[wide].sum()) / 64 * tuning.wide_block_us
        return int(wide.sum()) * tuning.wide_fixed_us + blocks_us, int(length[~wide].sum())

    def _cut_spans(self, lcp: list[int], lens: list[int], room: int, most: int) -> Ints:
        blocks = self.cut(lcp, most)
        spans = [self._block(lcp[a:b], lens[a:b], room) for a, b in blocks]
        found = np.array(list(chain.from_iterable(spans)), np.int32).reshape(-1, 6)
        counts = np.array([len(some) for some in spans], np.int64)
        found[:, _FIRST] += np.repeat([a for a, _ in blocks], counts).astype(np.int32)
        shift = np.repeat(np.cumsum(counts) - counts, counts).astype(np.int32)
        found[:, _PARENT] += np.where(found[:, _PARENT] < 0, 0, shift)
        return found

    def cut(self, lcp: Sequence[int], most: int) -> list[tuple[int, int]]:
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
            most_lost = least + max(2 * self._rules.tuning.least_shared, least // 16)
            middle = first + most * -(-(last - first) // (2 * most))
            places = (i for i, n in enumerate(borders, first + 1) if n <= most_lost)
            at = min(places, key=lambda i: abs(i - middle))
            stack += [(at, last), (first, at)]
        return blocks

    def _block(self, lcp: Sequence[int], lens: Sequence[int], room: int) -> list[_Span]:
        """The spans of one block, from the values of its own rows; parents before children.
        First places and parents count from the block's own."""
        window = self._rules.window
        oldest = [0 if window is None else max(0, n - window) for n in lens]
        spans: list[_Span] = []
        stack = [(0, len(lens), 0, -1, 0)]
        while stack:
            first, last, start, parent, depth = stack.pop()
            start = max(start, min(oldest[first:last]))
            if last - first == 1:
                spans.append((first, 1, start, lens[first] + room, parent, depth))
                continue
            borders = lcp[first + 1 : last]
            common, worth = min(borders), self._worth_sharing(last - first)
            if common - start >= worth and depth < _MAX_DEPTH:
                spans.append((first, last - first, start, common, parent, depth))
                start, parent, depth = common, len(spans) - 1, depth + 1
            # Fewer rows would have to share more: no span goes across a border below this.
            least = start + worth if depth < _MAX_DEPTH else math.inf
            cuts = [i for i, n in enumerate(borders, first + 1) if n < least]
            for a, b in zip([*reversed(cuts), first], [last, *reversed(cuts)], strict=True):
                stack.append((a, b, start, parent, depth))
        return spans

    def _worth_sharing(self, rows: int) -> int:
        # A partial result is written and read in float32, which costs what 2 * group tokens of
        # 16 bits do.
        least = self._rules.tuning.least_shared
        return max(least, math.ceil(2 * self._rules.group * rows / (rows - 1)))

    def _assemble(self, spans: Ints, order: Ints) -> Plan:
        """Items of all spans; `order[place]` is the batch row that stands there."""
        length = (spans[:, _END] - spans[:, _START]).astype(np.int64)
        wide = spans[:, _COUNT] > self._rules.few_rows
        few = ~wide & (spans[:, _COUNT] > self._rules.own_rows)
        own = ~wide & ~few
        tokens = self._step(length[own])
        sizes = np.empty(len(spans), np.int64)
        sizes[wide] = self._wide_size(length[wide], spans[~wide])
        sizes[~wide] = self._narrow_size(length[~wide])
        aligned = np.where(wide | few, 64, tokens)
        pieces = self._pieces(spans, length, sizes, aligned, (wide, few, own))
        items, kinds, places = _items(spans, length, pieces, aligned, order)
        ends = np.empty(len(order), np.int32)
        leaf = spans[:, _COUNT] == 1
        ends[spans[leaf, _FIRST]] = spans[leaf, _END]
        wides, fews, owns = (items[mask[kinds]] for mask in (wide, few, own))
        most = int(spans[wide, _COUNT].max(initial=0))
        launch = Launch(
            rows=len(order),
            wide=len(wides),
            few=len(fews),
            own=len(owns),
            tile=self._rules.tile(most),
            tokens=tokens,
        )
        return Plan(wides, fews, owns, places, ends, launch)

    def _step(self, length: _Longs) -> int:
        total = int(length.sum())
        mean = float((length.astype(np.float64) ** 2).sum()) / total if total else 0.0
        return 16 if mean <= self._rules.tuning.short else 64

    def _wide_size(self, length: _Longs, others: Ints) -> int:
        """Tokens of a piece of a wide span."""
        tuning, total = self._rules.tuning, int(length.sum())
        bytes_beside = int((others[:, _END] - others[:, _START]).sum()) * self._rules.token_bytes
        beside_us = 1.2 * bytes_beside / tuning.bytes_per_us
        work_us = total * self._rules.kv_heads * tuning.wide_block_us / 64
        hidden = work_us / max(1.0, beside_us - tuning.wide_fixed_us)
        programs = tuning.few_programs if hidden <= tuning.few_programs else tuning.many_programs
        size = -(-total * self._rules.kv_heads // programs)
        return max(tuning.least_wide, size)

    def _narrow_size(self, length: _Longs) -> int:
        """Tokens of a piece of an own span, or one that few share."""
        tuning, heads, total = self._rules.tuning, self._rules.kv_heads, int(length.sum())
        if len(length) * heads >= tuning.enough_programs:
            return tuning.most_narrow
        least = min(tuning.least_narrow, max(64, total * heads // tuning.least_programs))
        return min(tuning.most_narrow, max(least, total * heads // tuning.narrow_programs))

    def _pieces(
        self,
        spans: Ints,
        length: _Longs,
        sizes: _Longs,
        aligned: _Longs,
        kinds: tuple[NDArray[np.bool_], ...],
    ) -> _Longs:
        """How many items each span becomes; fewer where the buffers would not hold them."""
        rules = self._rules
        most = rules.most(int((spans[:, _COUNT] == 1).sum()))
        while True:
            pieces = _divide_up(length, sizes)
            even = _even(length, pieces, aligned)
            pieces = _divide_up(length, even)
            partials = int((pieces * spans[:, _COUNT]).sum())
            too_many = np.full(len(pieces), partials > rules.max_partials)
            for kind, limit in zip(kinds, most, strict=True):
                if int(pieces[kind].sum()) > limit:
                    too_many |= kind
            too_many &= pieces > 1
            if not too_many.any():
                return pieces
            sizes = np.where(too_many, sizes * 2, sizes)


def _list(values: Sequence[int] | Ints) -> list[int]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _pad(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _divide_up(length: _Longs, size: _Longs) -> _Longs:
    """`length / size`, rounded up; where size is 0, by 1."""
    found: _Longs = -(-length // np.maximum(size, 1))
    return found


def _even(length: _Longs, pieces: _Longs, aligned: _Longs) -> _Longs:
    """The size of a piece where `length` is cut evenly into `pieces` multiples of `aligned`."""
    return _divide_up(_divide_up(length, pieces), aligned) * aligned


def _items(
    spans: Ints,
    length: _Longs,
    pieces: _Longs,
    aligned: _Longs,
    order: Ints,
) -> tuple[Ints, _Longs, Ints]:
    """All items, the span that each belongs to, and the places."""
    parts = np.zeros(len(spans), np.int64)  # of the spans above
    for depth in range(1, int(spans[:, _DEPTH].max(initial=0)) + 1):
        here = np.flatnonzero(spans[:, _DEPTH] == depth)
        parent = spans[here, _PARENT]
        parts[here] = parts[parent] + pieces[parent]
    owner = np.repeat(np.arange(len(spans)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    size = _even(length, pieces, aligned)
    items = np.zeros((len(owner), ITEM), np.int32)
    items[:, ROW] = order[spans[owner, _FIRST]]
    items[:, START] = spans[owner, _START] + number * size[owner]
    items[:, END] = np.minimum(items[:, START] + size[owner], spans[owner, _END])
    items[:, FIRST] = spans[owner, _FIRST]
    items[:, COUNT] = spans[owner, _COUNT]
    items[:, PART] = parts[owner] + number
    leaf = np.flatnonzero(spans[:, _COUNT] == 1)
    places = np.zeros((len(order), PLACE), np.int32)
    places[:, PLACE_ROW] = order
    places[spans[leaf, _FIRST], PLACE_PARTS] = parts[leaf] + pieces[leaf]
    places[:, PLACE_BASE] = np.cumsum(places[:, PLACE_PARTS]) - places[:, PLACE_PARTS]
    return items, owner, places
