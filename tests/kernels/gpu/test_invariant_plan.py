"""Plans by fixed chunks: every row's keys are read once, from slots that are its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.gpu.attention.invariant_plan import ChunkPlan, Ints, Rules, plan_rows
from sgc_kernels.gpu.attention.items import COUNT, END, FIRST, ROW, START
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp

CHUNK = 8


@st.composite
def tables(draw: st.DrawFn) -> tuple[Ints, Ints]:
    """Slots `[rows, width]` and lengths: branches of branches, some rows tokens of one sequence."""
    width, rows, slots, lens = 70, draw(st.integers(0, 24)), [], []
    fresh = iter(range(1, 1 << 20))
    for row in range(rows):
        parent = draw(st.integers(-1, row - 1))
        shared = draw(st.integers(0, lens[parent])) if parent >= 0 else 0
        if parent >= 0 and draw(st.booleans()):
            shared = lens[parent]
        own = draw(st.sampled_from([0, 1, 1, 3, 17, 40]))
        length = min(shared + own, width)
        prefix = slots[parent][:shared] if parent >= 0 else []
        lens.append(length)
        slots.append([*prefix, *(next(fresh) for _ in range(width - len(prefix)))])
    return np.array(slots, np.int32).reshape(rows, width), np.array(lens, np.int32)


def plan(slots: Ints, lens: Ints, rules: Rules, room: int) -> ChunkPlan:
    starts = np.arange(len(lens), dtype=np.int64) * slots.shape[1]
    order = depth_first_order(slots.reshape(-1), starts, lens)
    lcp = neighbour_lcp(slots.reshape(-1), starts[order], lens[order])
    return plan_rows(rules, lcp.astype(np.int64), lens[order].astype(np.int64), room, order)


@settings(deadline=None, max_examples=150)
@given(
    table=tables(),
    rows=st.sampled_from([1, 4, 16]),
    programs=st.sampled_from([1, 8, 1000]),
    most=st.sampled_from([0, 20, 10_000]),
    window=st.sampled_from([None, 1, 20]),
    room=st.integers(0, 9),
    grown=st.booleans(),
)
def test_every_row_reads_its_own_keys_once(
    table: tuple[Ints, Ints],
    rows: int,
    programs: int,
    most: int,
    window: int | None,
    room: int,
    grown: bool,
) -> None:
    slots, lens = table
    rules = Rules(rows, CHUNK, 2, programs, 10_000, most, window)
    found = plan(slots, lens, rules, room)
    assert found.num_partials <= most
    assert sorted(found.places[:, 0].tolist()) == list(range(len(lens)))
    if grown:
        longer = np.minimum(lens + room, slots.shape[1])
        lens = np.where(_grows(found, lens, room), longer, lens).astype(np.int32)
    assert found.holds(lens)
    read = _read(found, slots, lens, rows)
    for place, (row, base, folded, _) in enumerate(found.places.tolist()):
        length = int(lens[row])
        oldest = 0 if window is None else max(0, length - window)
        keys = sorted(key for some in read[place] for key in some)
        assert len(keys) == len(set(keys))
        assert set(range(oldest, length)) <= set(keys)
        folds = [some for some in read[place] if some and some[-1] < folded * CHUNK]
        if base < 0:
            assert all(key < folded * CHUNK for key in keys)
        assert len(folds) <= 1
    _check_partials(found, lens)


def _grows(found: ChunkPlan, lens: Ints, room: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    grows = np.zeros(len(lens), np.bool_)
    rows = found.places[:, 0]
    grows[rows] = found.ends == lens[rows] + room
    return grows


def _read(found: ChunkPlan, slots: Ints, lens: Ints, most: int) -> list[list[list[int]]]:
    """For each place the keys of each item that it sees, after a check of their slots."""
    read: list[list[list[int]]] = [[] for _ in found.places]
    for item in [*found.own.tolist(), *found.few.tolist()]:
        reader, end = item[ROW], min(item[END], int(lens[item[ROW]]))
        assert item[START] % CHUNK == 0
        assert 1 <= item[COUNT] <= most
        for place in range(item[FIRST], item[FIRST] + item[COUNT]):
            row = int(found.places[place, 0])
            seen = range(item[START], min(end, int(lens[row])))
            assert end == item[END] or end >= min(item[END], int(lens[row]))
            assert slots[reader, seen].tolist() == slots[row, seen].tolist()
            read[place].append(list(seen))
    return read


def _check_partials(found: ChunkPlan, lens: Ints) -> None:
    """Places have results of their own, enough for their chunks."""
    end = 0
    for row, base, folded, _ in found.places.tolist():
        if base < 0:
            continue
        assert base == end
        chunks = -(-int(found.ends[found.places[:, 0] == row][0]) // CHUNK)
        end = base + 1 + max(0, chunks - folded)
    assert end == found.num_partials
