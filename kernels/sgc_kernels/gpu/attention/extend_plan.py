"""Cutting a step into the items of the extend kernel: tiles of tokens, then parts of contexts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sgc_kernels.gpu.attention.extend import ITEM, MERGE, Tile

Numbers = npt.NDArray[np.int64]
Table = npt.NDArray[np.int32]

_LEAST_PART = 256  # keys: a shorter part costs more to start and to merge than it saves
# Lines x keys of a tile that take as long as one more partial result of a token, which is written
# and read in float32 (an H200: 15 ns at 4,300 GB/s, against 4,096 operations at 500 TFLOP/s).
_PARTIAL = 1800


@dataclass(frozen=True, slots=True)
class Rows:
    """The sequences of a step that have queries; an entry each, by ascending rows of q."""

    row: Numbers  # of q, the first
    queries: Numbers
    context: Numbers  # offset of the slots
    length: Numbers  # of the context, queries included
    shared: Numbers  # leading slots that are those of the entry before


@dataclass(frozen=True, slots=True)
class ExtendPlan:
    """Tables of the extend and merge kernels, on the host."""

    items: tuple[tuple[Tile, Table], ...]  # [num_items, ITEM] of each form
    merges: Table  # [num_merges, MERGE]
    num_partials: int


@dataclass(slots=True)
class _Tiles:
    """Consecutive rows of q that see the same keys, but for their own places; an entry each."""

    form: Numbers
    row: Numbers
    tokens: Numbers
    context: Numbers
    start: Numbers
    end: Numbers
    position: Numbers
    group: Numbers  # that reads its prefix together, -1: none


@dataclass(slots=True)
class _Groups:
    """Neighbouring sequences whose common prefix is read once for the tokens of them all."""

    first: Numbers  # entry of Rows
    last: Numbers  # behind the last one
    keys: Numbers  # of the prefix


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
    holds it. Sequences with few tokens and a long prefix in common have a tile over the prefix
    together. A form with too few tiles for the GPU has their contexts cut into parts of equal
    length. Long items come first, so that none begins when the others end.

    Args:
        tiles: the forms, the one with the most lines first.
        window: a token sees itself and the `window - 1` before it; None: all.
    """
    group = num_heads // num_kv_heads
    sizes = [tile.lines // group for tile in tiles]
    groups = _find_groups(rows, sizes, group, window)
    own, prefixes = _own_tiles(rows, sizes, groups, window), _prefix_tiles(rows, sizes, groups)
    capacities = [max(1, tile.programs * multiprocessors // num_kv_heads) for tile in tiles]
    parts = _parts(_joined(own, prefixes), tiles, capacities)
    return _tables(own, prefixes, parts, tiles)


def _find_groups(rows: Rows, sizes: list[int], group: int, window: int | None) -> _Groups:
    found: list[tuple[int, int, int]] = []
    if window is None and rows.shared.any():
        before = rows.length - rows.queries
        shared = np.minimum(rows.shared, before)
        shared[1:] = np.minimum(shared[1:], before[:-1])
        for first, last, keys in _runs(shared.tolist()):
            if _gain(rows.queries[first:last], keys, sizes, group) > 0:
                found.append((first, last, keys))
    return _Groups(*np.array(found, np.int64).reshape(-1, 3).T)


def _runs(shared: list[int]) -> list[tuple[int, int, int]]:
    """Runs of sequences that share more than half of what the first two do: first, end, keys."""
    runs = []
    first = 0
    while first + 1 < len(shared):
        most = keys = shared[first + 1]
        last = first + 2
        while last < len(shared) and 2 * shared[last] > most:
            keys, last = min(keys, shared[last]), last + 1
        if keys:
            runs.append((first, last, keys))
            first = last
        else:
            first += 1
    return runs


def _gain(queries: Numbers, keys: int, sizes: list[int], group: int) -> int:
    """Lines x keys that a common tile saves, less what more partial results cost."""
    total = int(queries.sum())
    apart = sum(_lines(int(n), sizes) for n in queries)
    return (apart - _lines(total, sizes)) * group * keys - total * _PARTIAL * 2


def _lines(tokens: int, sizes: list[int]) -> int:
    """Tokens for which the tiles of `tokens` have room."""
    left = tokens % sizes[0]
    return tokens - left + (min(size for size in sizes if size >= left) if left else 0)


def _own_tiles(rows: Rows, sizes: list[int], groups: _Groups, window: int | None) -> _Tiles:
    """Tiles of each sequence's tokens, over all keys but those of its group's prefix."""
    member = np.full(len(rows.row), -1)
    skipped = np.zeros(len(rows.row), np.int64)
    for number, (first, last) in enumerate(zip(groups.first, groups.last, strict=True)):
        member[first:last] = number
        skipped[first:last] = groups.keys[number]
    which, begin, tokens = _chunks(rows.queries, sizes[0])
    position = rows.length[which] - rows.queries[which] + begin
    start = skipped[which]
    if window is not None:
        start = np.maximum(position - window + 1, 0)
    form = np.zeros(len(which), np.int64)
    for smaller, size in enumerate(sizes):
        form[tokens <= size] = smaller
    row, end = rows.row[which] + begin, position + tokens
    return _Tiles(form, row, tokens, rows.context[which], start, end, position, member[which])


def _prefix_tiles(rows: Rows, sizes: list[int], groups: _Groups) -> _Tiles:
    """Tiles of each group's tokens over its prefix; a group's have one form."""
    last = groups.last - 1
    total = rows.row[last] + rows.queries[last] - rows.row[groups.first]
    which, begin, tokens = _chunks(total, sizes[0])
    form = np.zeros(len(groups.first), np.int64)
    for smaller, size in enumerate(sizes):
        form[total <= size] = smaller
    first, keys = groups.first[which], groups.keys[which]
    row = rows.row[first] + begin
    return _Tiles(
        form[which], row, tokens, rows.context[first], np.zeros_like(keys), keys, keys, which
    )


def _chunks(counts: Numbers, size: int) -> tuple[Numbers, Numbers, Numbers]:
    """Chunks of at most `size` of each count: whose, begin and length."""
    chunks = -(-counts // size)
    which = np.repeat(np.arange(len(counts)), chunks)
    begin = _within(chunks, which) * size
    return which, begin, np.minimum(counts[which] - begin, size)


def _within(counts: Numbers, which: Numbers) -> Numbers:
    """0, 1, ... for each entry of `which`, which repeats the places of `counts`."""
    number: Numbers = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return number


def _joined(first: _Tiles, second: _Tiles) -> _Tiles:
    fields = _Tiles.__slots__
    return _Tiles(*(np.concatenate([getattr(first, x), getattr(second, x)]) for x in fields))


def _parts(tiles: _Tiles, forms: tuple[Tile, ...], capacities: list[int]) -> Numbers:
    """Into how many parts each tile's context is cut."""
    keys = tiles.end - tiles.start
    parts = np.ones(len(keys), np.int64)
    for number, (form, capacity) in enumerate(zip(forms, capacities, strict=True)):
        mine = tiles.form == number
        least = max(_LEAST_PART, form.keys, -(-int(keys[mine].sum()) // capacity))
        wanted = np.maximum(1, (keys[mine] + least // 2) // least)
        length = -(-keys[mine] // (wanted * form.keys)) * form.keys
        parts[mine] = -(-keys[mine] // length)
    return parts


def _tables(own: _Tiles, prefixes: _Tiles, parts: Numbers, forms: tuple[Tile, ...]) -> ExtendPlan:
    own_parts, prefix_parts = np.split(parts, [len(own.row)])
    group = _places(prefixes, prefix_parts)
    merged = own_parts + group.parts[own.group] > 1
    room = np.where(merged, own_parts * own.tokens, 0)
    own_first = np.where(merged, group.end + np.cumsum(room) - room, -1)
    ours = prefixes.group
    prefix_first = group.partial[ours] + prefixes.row - group.row[ours]
    tiles = _joined(own, prefixes)
    first = np.concatenate([own_first, prefix_first])
    distance = np.concatenate([own.tokens, group.tokens[ours]])
    items = []
    for number, form in enumerate(forms):
        mine = np.flatnonzero(tiles.form == number)
        if len(mine):
            items.append((form, _items(tiles, mine, parts, first, distance, form.keys)))
    merges = _merges(own, np.flatnonzero(merged), own_parts, own_first, group)
    return ExtendPlan(tuple(items), merges, group.end + int(room.sum()))


@dataclass(slots=True)
class _Places:
    """Partial results over groups' prefixes; a last entry stands for having no group."""

    row: Numbers  # of q, the group's first
    tokens: Numbers
    parts: Numbers
    partial: Numbers  # the first
    end: int  # behind them all


def _places(prefixes: _Tiles, parts: Numbers) -> _Places:
    head = np.flatnonzero(np.diff(prefixes.group, prepend=-1))
    row, count = np.append(prefixes.row[head], 0), np.append(parts[head], 0)
    tokens = np.zeros(len(row), np.int64)
    np.add.at(tokens, prefixes.group, prefixes.tokens)
    room = count * tokens
    return _Places(row, tokens, count, np.cumsum(room) - room, int(room.sum()))


def _items(
    tiles: _Tiles, mine: Numbers, parts: Numbers, first: Numbers, distance: Numbers, block: int
) -> Table:
    """Items of the tiles `mine`; a part is a multiple of `block` keys."""
    keys = tiles.end[mine] - tiles.start[mine]
    length = -(-keys // (parts[mine] * block)) * block
    repeat = np.repeat(np.arange(len(mine)), parts[mine])
    part, which = _within(parts[mine], repeat), mine[repeat]
    items = np.zeros((len(which), ITEM), np.int32)
    items[:, 0] = tiles.row[which]
    items[:, 1] = tiles.tokens[which]
    items[:, 2] = tiles.context[which]
    items[:, 3] = tiles.start[which] + part * length[repeat]
    items[:, 4] = np.minimum(items[:, 3] + length[repeat], tiles.end[which])
    items[:, 5] = tiles.position[which]
    items[:, 6] = np.where(first[which] < 0, -1, first[which] + part * distance[which])
    return items[np.argsort(items[:, 3] - items[:, 4], kind="stable")]


def _merges(own: _Tiles, merged: Numbers, parts: Numbers, first: Numbers, group: _Places) -> Table:
    which = np.repeat(merged, own.tokens[merged])
    token = _within(own.tokens[merged], np.repeat(np.arange(len(merged)), own.tokens[merged]))
    row, ours = own.row[which] + token, own.group[which]
    merges = np.zeros((len(which), MERGE), np.int32)
    merges[:, 0] = row
    merges[:, 1] = group.partial[ours] + row - group.row[ours]
    merges[:, 2] = group.tokens[ours]
    merges[:, 3] = group.parts[ours]
    merges[:, 4] = first[which] + token
    merges[:, 5] = own.tokens[which]
    merges[:, 6] = parts[which]
    return merges
