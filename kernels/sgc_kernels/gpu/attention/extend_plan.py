"""Cutting a step into the items of the extend kernel: tiles of tokens, then parts of contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgc_kernels.gpu.attention.extend import ITEM, MERGE, Tile

Numbers = npt.NDArray[np.int64]

_LEAST_PART = 256  # keys: a shorter part costs more to start and to merge than it saves


@dataclass(frozen=True, slots=True)
class Rows:
    """The sequences of a step that have queries; an entry each."""

    row: Numbers  # of q, the first
    queries: Numbers
    context: Numbers  # offset of the slots
    length: Numbers  # of the context, queries included


@dataclass(frozen=True, slots=True)
class ExtendPlan:
    """Tables of the extend and merge kernels, on the host."""

    items: tuple[tuple[Tile, npt.NDArray[np.int32]], ...]  # [num_items, ITEM] of each form
    merges: npt.NDArray[np.int32]  # [num_merges, MERGE]
    num_partials: int


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Consecutive tokens of a row; an entry each."""

    row: Numbers
    tokens: Numbers
    context: Numbers
    start: Numbers
    end: Numbers
    position: Numbers

    def take(self, which: Numbers) -> _Tiles:
        return _Tiles(
            self.row[which],
            self.tokens[which],
            self.context[which],
            self.start[which],
            self.end[which],
            self.position[which],
        )


def plan_extend(
    rows: Rows,
    tiles: tuple[Tile, ...],
    num_heads: int,
    num_kv_heads: int,
    window: int | None,
    multiprocessors: int,
) -> ExtendPlan:
    """Cut `rows` into items.

    Whole tiles take the form with the most lines; what is left of a row takes the smallest that
    holds it. A form with too few tiles for the GPU has their contexts cut into parts of equal
    length. Long items come first, so that none begins when the others end.

    Args:
        tiles: the forms, the one with the most lines first.
        window: a token sees itself and the `window - 1` before it; None: all.
    """
    group = num_heads // num_kv_heads
    form, all_tiles = _cut_tokens(rows, [tile.lines // group for tile in tiles], window)
    items, merges, num_partials = [], [np.empty((0, MERGE), np.int32)], 0
    for number, tile in enumerate(tiles):
        mine = all_tiles.take(np.flatnonzero(form == number))
        if not len(mine.row):
            continue
        capacity = max(1, tile.programs * multiprocessors // num_kv_heads)
        parts = _parts(mine, capacity, tile.keys)
        made, merged, num_partials = _cut_contexts(mine, parts, tile.keys, num_partials)
        items.append((tile, made))
        merges.append(merged)
    return ExtendPlan(tuple(items), np.concatenate(merges), num_partials)


def _cut_tokens(rows: Rows, sizes: list[int], window: int | None) -> tuple[Numbers, _Tiles]:
    """The number of each tile's form, and the tiles; forms hold `sizes` tokens."""
    largest = sizes[0]
    count = -(-rows.queries // largest)
    which = np.repeat(np.arange(len(count)), count)
    number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    begin = number * largest
    tokens = np.minimum(rows.queries[which] - begin, largest)
    position = rows.length[which] - rows.queries[which] + begin
    start = np.zeros_like(position)
    if window is not None:
        start = np.maximum(position - window + 1, 0)
    form = np.zeros(len(which), np.int64)
    for smaller, size in enumerate(sizes):
        form[tokens <= size] = smaller
    row, context = rows.row[which] + begin, rows.context[which]
    return form, _Tiles(row, tokens, context, start, position + tokens, position)


def _parts(tiles: _Tiles, capacity: int, block: int) -> Numbers:
    """Into how many parts each tile's context is cut."""
    keys = tiles.end - tiles.start
    least = max(_LEAST_PART, block, -(-int(keys.sum()) // capacity))
    parts: Numbers = np.maximum(1, (keys + least // 2) // least)
    return parts


def _cut_contexts(
    tiles: _Tiles, parts: Numbers, block: int, first_partial: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
    """Items, merges, and the next free partial; a part is a multiple of `block` keys."""
    keys = tiles.end - tiles.start
    length = -(-keys // (parts * block)) * block
    parts = -(-keys // length)
    which = np.repeat(np.arange(len(parts)), parts)
    part = np.arange(len(which)) - np.repeat(np.cumsum(parts) - parts, parts)
    partials = np.where(parts > 1, parts * tiles.tokens, 0)
    first = first_partial + np.cumsum(partials) - partials
    items = np.zeros((len(which), ITEM), np.int32)
    items[:, 0] = tiles.row[which]
    items[:, 1] = tiles.tokens[which]
    items[:, 2] = tiles.context[which]
    items[:, 3] = tiles.start[which] + part * length[which]
    items[:, 4] = np.minimum(items[:, 3] + length[which], tiles.end[which])
    items[:, 5] = tiles.position[which]
    items[:, 6] = np.where(parts > 1, first, -1)[which]
    items[:, 6] += np.where(parts[which] > 1, part * tiles.tokens[which], 0).astype(np.int32)
    order = np.argsort(items[:, 3] - items[:, 4], kind="stable")
    merges = _merges(tiles, parts, first)
    return items[order], merges, first_partial + int(partials.sum())


def _merges(tiles: _Tiles, parts: Numbers, first: Numbers) -> npt.NDArray[np.int32]:
    cut = np.flatnonzero(parts > 1)
    tokens = tiles.tokens[cut]
    which = np.repeat(cut, tokens)
    token = np.arange(len(which)) - np.repeat(np.cumsum(tokens) - tokens, tokens)
    merges = np.empty((len(which), MERGE), np.int32)
    merges[:, 0] = tiles.row[which] + token
    merges[:, 1] = first[which] + token
    merges[:, 2] = tiles.tokens[which]
    merges[:, 3] = parts[which]
    return merges
