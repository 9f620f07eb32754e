"""Plans attention by fixed chunks: which tokens are computed together, and over which keys.

Rows (a token with the keys it sees) stand in depth-first order of what they share, as in `plan`.
Nothing that is decided here changes a bit of the results; it decides how often keys are read, and
how many programs there are. Tokens of one sequence that follow each other, and rows that share
whole chunks, are the lines of one tile. NumPy only.

An item is eight int32, as in `items`: ROW (the row whose slots are read), START, END, FIRST, COUNT,
and PART 0. A *fold* adds its chunks up: into the result, or into the first partial result of its
places. A *split* stores each of its chunks as a partial result. The columns of a place are its row,
its first partial result (-1: a fold gives the final result) and how many chunks are in that one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgc_kernels.gpu.attention.items import COUNT, END, FIRST, ITEM, PLACE, ROW, START, Launch
from sgc_kernels.gpu.attention.plan import Plan

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# Columns of a span.
_FIRST, _COUNT, _START, _END, _ROOT = range(5)
_FEW_WAVES = 0.6  # of the work of a program: longer spans run in too few waves to end evenly
_PIECES = 3  # items that a program takes one after the other, where spans are cut


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan needs to know of model and kernels."""

    rows: int  # of a tile, at most
    chunk: int  # keys
    kv_heads: int
    programs: int  # that run at once
    max_items: int  # of each kind
    max_partials: int
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkPlan(Plan):
    """Folds are the `own` items, splits the `few` items; there are no `wide` ones."""

    num_partials: int = 0


@dataclass(frozen=True, slots=True)
class _Units:
    """Rows that follow each other in one sequence, at most a tile of them; an entry each."""

    first: Longs  # row, by place
    count: Longs
    length: Longs  # keys of the last row, which sees most
    least: Longs  # keys of the first row
    room: Longs
    lcp: Longs  # keys in whole chunks that it shares with the unit before

    def __len__(self) -> int:
        return len(self.first)


def plan_rows(
    rules: Rules,
    lcp: Longs,
    lens: Longs,
    room: int,
    order: Ints,
) -> ChunkPlan:
    """Plan rows that stand in depth-first order.

    Args:
        lcp: for each place, how many leading keys its row shares with the row before.
        lens: keys that the row at each place sees.
        room: by how many keys each row may grow before the next plan; rows that are tokens of one
            sequence do not grow.
        order: the row at each place.
    """
    for shared in (True, False):
        units = _units(rules, lcp if shared else _chained(lcp, lens) * lcp, lens, room)
        ends = lens + np.repeat(units.room, units.count)
        spans = np.array(list(_spans(rules, units)), np.int64).reshape(-1, 5)
        size = _piece(rules, spans)
        longest = int((spans[:, _END] - spans[:, _START]).max(initial=0))
        while True:
            plan = _assemble(rules, spans, ends, size, order)
            if _fits(rules, plan):
                return plan
            if size >= longest:
                break
            size = 2 * size
    raise AssertionError("more rows than the buffers hold")


def _fits(rules: Rules, plan: ChunkPlan) -> bool:
    items = max(plan.launch.few, plan.launch.own)
    return items <= rules.max_items and plan.num_partials <= rules.max_partials


def _chained(lcp: Longs, lens: Longs) -> NDArray[np.bool_]:
    """Whether each row goes on where the one before ends, with all of its keys before it."""
    found = np.zeros(len(lens), np.bool_)
    found[1:] = (lcp[1:] >= lens[:-1]) & (lens[:-1] > 0) & (lens[1:] >= lens[:-1])
    return found


def _units(rules: Rules, lcp: Longs, lens: Longs, room: int) -> _Units:
    chained = _chained(lcp, lens)
    place = np.arange(len(lens))
    in_chain = place - np.maximum.accumulate(np.where(chained, 0, place))
    begins = in_chain % rules.rows == 0
    first = np.flatnonzero(begins)
    count = np.diff(np.append(first, len(lens)))
    last = first + count - 1
    grows = ~chained[first] & (count == 1)
    grows[:-1] &= ~chained[first[1:]]
    common = np.minimum(lcp[first], lens[first])
    common[1:] = np.minimum(common[1:], lens[last[:-1]])
    common[chained[first]] = 0  # behind a whole tile
    common[:1] = 0
    common -= common % rules.chunk
    return _Units(first, count, lens[last], lens[first], np.where(grows, room, 0), common)


def _spans(rules: Rules, units: _Units) -> Iterator[tuple[int, int, int, int, int]]:
    """First place, count, first key, end, and whether no span of its rows stands before it."""
    starts = np.flatnonzero(units.lcp == 0)
    ends = np.append(starts[1:], len(units))[: len(starts)]
    alone = ends - starts == 1
    some = starts[alone]
    oldest = _oldest(rules, units.least[some])
    yield from zip(
        units.first[some].tolist(),
        units.count[some].tolist(),
        oldest.tolist(),
        (units.length + units.room)[some].tolist(),
        [1] * len(some),
        strict=True,
    )
    for first, last in zip(starts[~alone].tolist(), ends[~alone].tolist(), strict=True):
        for a, b in _blocks(rules, units, first, last):
            yield from _tree(rules, units, a, b)


def _oldest(rules: Rules, least: Longs) -> Longs:
    """The chunk's first key that rows with at least so many keys may see."""
    if rules.window is None:
        return np.zeros_like(least)
    chunks: Longs = np.maximum(least - rules.window, 0) // rules.chunk
    return chunks * rules.chunk


def _blocks(rules: Rules, units: _Units, first: int, last: int) -> list[tuple[int, int]]:
    """Neighbours with at most a tile of rows, cut where they share least."""
    before = np.append(0, np.cumsum(units.count[first:last]))
    blocks, stack = [], [(first, last)]
    while stack:
        a, b = stack.pop()
        rows = int(before[b - first] - before[a - first])
        if rows <= rules.rows or b - a == 1:
            blocks.append((a, b))
            continue
        inner = units.lcp[a + 1 : b]
        cuts = np.flatnonzero(inner == inner.min()) + a + 1
        middle = before[a - first] + rules.rows * -(-rows // (2 * rules.rows))
        at = int(cuts[np.abs(before[cuts - first] - middle).argmin()])
        stack += [(at, b), (a, at)]
    return blocks


def _tree(
    rules: Rules, units: _Units, first: int, last: int
) -> Iterator[tuple[int, int, int, int, int]]:
    stack = [(first, last, 0, 1)]
    while stack:
        a, b, start, root = stack.pop()
        start = max(start, int(_oldest(rules, units.least[a:b]).min()))
        place = int(units.first[a])
        if b - a == 1:
            end = int(units.length[a] + units.room[a])
            if end > start or root:
                yield place, int(units.count[a]), start, end, root
            continue
        common = int(units.lcp[a + 1 : b].min())
        if common > start:
            yield place, int(units.count[a:b].sum()), start, common, root
            start, root = common, 0
        borders = [a, *(i for i in range(a + 1, b) if units.lcp[i] == common), b]
        for i, j in zip(borders[-2::-1], borders[:0:-1], strict=True):
            stack.append((i, j, start, root))


def _piece(rules: Rules, spans: Longs) -> int:
    """Keys of an item, in whole chunks: as many as the longest span has, where programs end at
    about the same time nevertheless; parts of a span cost a partial result a chunk."""
    length = spans[:, _END] - spans[:, _START]
    even = int(length.sum()) * rules.kv_heads / rules.programs
    long = int((length > _FEW_WAVES * even).sum()) * rules.kv_heads
    size = int(length.max(initial=0)) if 2 * long < rules.programs else even / _PIECES
    return max(1, math.ceil(size / rules.chunk)) * rules.chunk


def _assemble(rules: Rules, spans: Longs, ends: Longs, size: int, order: Ints) -> ChunkPlan:
    """A plan of items of `size` keys; `ends` is how far the row at each place may grow."""
    roots, others = spans[spans[:, _ROOT] == 1], spans[spans[:, _ROOT] == 0]
    tails = roots.copy()
    folds = roots.copy()
    folds[:, _END] = np.minimum(roots[:, _START] + size, roots[:, _END])
    tails[:, _START] = folds[:, _END]
    tails = tails[tails[:, _END] > tails[:, _START]]
    splits = _cut(np.concatenate([tails, others]), size)
    places, partials = _places(rules, folds, splits, ends, order)
    own, few = (_items(some, order) for some in (folds, splits))
    launch = Launch(rows=len(order), wide=0, few=len(few), own=len(own), tile=rules.rows, tokens=0)
    nothing = np.empty((0, ITEM), np.int32)
    return ChunkPlan(nothing, few, own, places, ends.astype(np.int32), launch, partials)


def _cut(spans: Longs, size: int) -> Longs:
    pieces = -(-(spans[:, _END] - spans[:, _START]) // size)
    owner = np.repeat(np.arange(len(spans)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    cut = spans[owner]
    cut[:, _START] += number * size
    cut[:, _END] = np.minimum(cut[:, _START] + size, cut[:, _END])
    return cut


def _places(
    rules: Rules, folds: Longs, splits: Longs, ends: Longs, order: Ints
) -> tuple[Ints, int]:
    """Places, and the number of partial results."""
    num_rows = len(order)
    begins = np.zeros(num_rows + 1, np.int64)
    np.add.at(begins, splits[:, _FIRST], 1)
    np.add.at(begins, splits[:, _FIRST] + splits[:, _COUNT], -1)
    alone = np.cumsum(begins[:-1]) == 0
    folded = np.zeros(num_rows, np.int64)
    at = np.repeat(folds[:, _FIRST], folds[:, _COUNT]) + _within(folds[:, _COUNT])
    folded[at] = np.repeat(-(-folds[:, _END] // rules.chunk), folds[:, _COUNT])
    chunks = -(-ends // rules.chunk)
    parts = np.where(alone, 0, 1 + np.maximum(chunks - folded, 0))
    base = np.where(alone, -1, np.cumsum(parts) - parts)
    places = np.zeros((num_rows, PLACE), np.int32)
    places[:, 0], places[:, 1], places[:, 2] = order, base, folded
    return places, int(parts.sum())


def _within(count: Longs) -> Longs:
    """0, 1, ... for each entry, up to its count."""
    found: Longs = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return found


def _items(spans: Longs, order: Ints) -> Ints:
    """The longest first, so that no program is left alone with one."""
    spans = spans[(spans[:, _START] - spans[:, _END]).argsort(kind="stable")]
    items = np.zeros((len(spans), ITEM), np.int32)
    items[:, ROW] = order[spans[:, _FIRST] + spans[:, _COUNT] - 1]
    items[:, START], items[:, END] = spans[:, _START], spans[:, _END]
    items[:, FIRST], items[:, COUNT] = spans[:, _FIRST], spans[:, _COUNT]
    return items
