"""Plans of decode attention: every row's tokens exactly once, by whoever shares them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.gpu.attention import plan_reference
from sgc_kernels.gpu.attention.items import (
    COUNT,
    END,
    FIRST,
    PART,
    PLACE_BASE,
    PLACE_PARTS,
    PLACE_ROW,
    ROW,
    START,
    Launch,
    round_up,
)
from sgc_kernels.gpu.attention.plan import Parts, Plan, Planner
from sgc_kernels.gpu.attention.plan_compiled import compiled_plans
from sgc_kernels.gpu.attention.plan_rules import PARTS_A_ROW, Rules
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp


def _rules(max_rows: int = 256, window: int | None = None, extra: int = 2048) -> Rules:
    return Rules(
        kv_heads=8,
        group=4,
        token_bytes=4096,
        own_rows=2,
        few_rows=4,
        wide_rows=32,
        max_partials=PARTS_A_ROW * max_rows + extra,
        max_items=4 * max_rows + 256,
        window=window,
    )


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Lengths, and what neighbours share: any such numbers are those of some tree."""
    lens = draw(st.lists(st.integers(1, 3000), min_size=1, max_size=90))
    common = draw(st.lists(st.integers(0, 3000), min_size=len(lens), max_size=len(lens)))
    few = draw(st.sampled_from((1, 40, 3000)))  # coarse values make large groups
    lcp = [min(c // few * few, a, b) for c, a, b in zip(common, lens, [0, *lens[:-1]])]
    return lcp, lens


def _shares(lcp: list[int], a: int, b: int) -> int:
    return min(lcp[a + 1 : b + 1], default=1 << 30)


def _check(plan: Plan, lcp: list[int], lens: list[int], room: int, first: list[int]) -> None:
    """Each place's parts are its tokens from `first` on, cut anyhow, numbered from 0 on."""
    seen: list[list[tuple[int, int, int]]] = [[] for _ in lens]
    alone = np.zeros(len(lens), np.bool_)  # places that have tokens of their own
    for item in np.concatenate((plan.wide, plan.few, plan.own)).tolist():
        places = range(item[FIRST], item[FIRST] + item[COUNT])
        assert item[ROW] == plan.places[places[0], PLACE_ROW]
        assert item[COUNT] == 1 or item[END] <= _shares(lcp, places[0], places[-1])
        alone[places[0]] |= item[COUNT] == 1
        for place in places:
            seen[place].append((item[PART], item[START], item[END]))
    base = 0
    for place, parts in enumerate(seen):
        parts.sort()
        assert [part for part, _, _ in parts] == list(range(len(parts)))
        assert plan.places[place, PLACE_PARTS] == len(parts)
        assert plan.places[place, PLACE_BASE] == base
        base += len(parts)
        assert parts[0][1] <= first[place]
        assert parts[-1][2] == plan.ends[place] == lens[place] + room * alone[place]
        assert all(start < end for _, start, end in parts)
        for (_, _, end), (_, start, _) in pairwise(parts):
            assert start == end or end <= start <= first[place]


@settings(max_examples=150, deadline=None)
@given(batches(), st.integers(0, 40))
def test_every_token_of_a_row_once(batch: tuple[list[int], list[int]], room: int) -> None:
    lcp, lens = batch
    rules = _rules(len(lens), extra=0)
    plan = Planner(rules).plan(lcp, lens, room)
    _check(plan, lcp, lens, room, [0] * len(lens))
    assert int(plan.places[:, PLACE_PARTS].sum()) <= rules.max_partials
    counts = [kind[:, COUNT] for kind in (plan.wide, plan.few, plan.own)]
    assert all(5 <= n <= 32 for n in counts[0])
    assert all(3 <= n <= 4 for n in counts[1])
    assert all(1 <= n <= 2 for n in counts[2])


@settings(max_examples=80, deadline=None)
@given(batches(), st.integers(1, 2000))
def test_a_window_leaves_out_what_no_row_sees(
    batch: tuple[list[int], list[int]], window: int
) -> None:
    lcp, lens = batch
    plan = Planner(_rules(len(lens), window)).plan(lcp, lens, 5)
    _check(plan, lcp, lens, 5, [max(0, n - window) for n in lens])
    for item in np.concatenate((plan.wide, plan.few, plan.own)).tolist():
        rows = lens[item[FIRST] : item[FIRST] + item[COUNT]]
        assert item[END] > min(rows) - window


def test_blocks_are_cut_where_rows_share_least() -> None:
    rules = _rules()
    groups = [24, 30, 9, 32, 32, 3]
    lcp = [n for size in groups for n in (100, *[356] * (size - 1))]
    borders = np.cumsum([0, *groups]).tolist()
    assert plan_reference.cut(rules, lcp, 32) == list(pairwise(borders))
    blocks = [(a, a + 32) for a in range(0, 256, 32)]
    assert plan_reference.cut(rules, [0, *[1504] * 255], 32) == blocks
    assert plan_reference.cut(rules, [], 32) == []


def test_the_studied_case_is_one_wide_span_a_block() -> None:
    plan = Planner(_rules()).plan([0, *[1504] * 255], [1616] * 256)
    assert plan.launch == Launch(rows=256, wide=8, few=0, own=256, tile=128, tokens=16)
    assert (plan.places[:, PLACE_PARTS] == 2).all()
    assert plan.holds(np.full(256, 1632))
    assert not plan.holds(np.full(256, 1633))


def test_unshared_rows_are_split_until_there_is_enough_to_do() -> None:
    plan = Planner(_rules()).plan([0] * 64, [2048] * 64)
    assert not plan.launch.wide
    assert not plan.launch.few
    assert plan.launch.own >= 128
    assert plan.launch.tokens == 64


def _trees(count: int, levels: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Of `count` binary trees behind 60 common tokens, each level so many tokens long."""
    leaves = 2 ** len(levels)
    depths = np.cumsum([194, *levels]).tolist()
    lcp = [depths[-1 - (i & -i).bit_length()] if i % leaves else 60 for i in range(leaves * count)]
    return lcp, [depths[-1]] * len(lcp)


def test_many_small_spans_have_small_tiles() -> None:
    """Twice as many of those live on a multiprocessor; what all share is read a few times more."""
    lcp, lens = _trees(16, (96, 152, 120, 40))
    plan = Planner(_rules()).plan(lcp, lens)
    assert plan.launch.tile == 64
    assert plan.launch.wide < 56
    _check(plan, lcp, lens, 16, [0] * len(lens))
    few_trees = Planner(_rules()).plan(*_trees(2, (96, 152, 120, 40)))
    assert few_trees.launch.tile == 128


@settings(max_examples=150, deadline=None)
@given(batches(), st.sampled_from((0, 40, 20_000)), st.integers(0, 50))
def test_grids_by_size_cover_plans(
    batch: tuple[list[int], list[int]], longer: int, padding: int
) -> None:
    """However long contexts are; trees of many small spans may be beyond."""
    lcp, lens = batch
    rules = _rules()
    plan = Planner(rules).plan([n + longer for n in lcp], [n + longer for n in lens])
    launch = replace(plan.launch, rows=len(lens) + padding)
    grids = rules.grids(launch)
    assert grids.general.covers(launch)
    assert grids.fitting.covers(launch)
    assert grids.general.covers(grids.fitting)
    assert grids.fitting.tile == launch.tile or not launch.wide
    spans = [len(np.unique(x[:, [FIRST, COUNT]], axis=0)) for x in (plan.wide, plan.few, plan.own)]
    every = zip(spans, (launch.wide, launch.few, launch.own), rules.most(len(lens)), strict=True)
    assert all(items <= max(most, count) for count, items, most in every)


def test_one_general_grid_serves_trees_and_flat_batches() -> None:
    rules = _rules()
    batches = [
        _trees(16, (96, 152, 120, 40)),
        _trees(8, (20, 20, 20, 20, 20)),
        ([0] * 256, [2000] * 256),
    ]
    batches += [([0, *[700] * 255], [720] * 256), ([0] * 200, list(range(1, 201)))]
    batches += [([0, *range(901, 1156)], list(range(901, 1157)))]
    for tokens in (16, 64):
        found = set()
        for lcp, lens in batches:
            launch = Planner(rules).plan(lcp, lens).launch
            found.add(rules.grids(replace(launch, rows=256, tokens=tokens)).general)
        assert len(found) == 1


def test_longer_contexts_need_few_larger_grids() -> None:
    rules, found = _rules(512), set()
    for length in range(100, 9000, 100):
        launch = Planner(rules).plan([0] * 256, [length] * 256).launch
        general = rules.grids(launch).general
        assert general.covers(launch)
        found.add(general.own)
    assert len(found) <= 4


@settings(max_examples=200, deadline=None)
@given(batches(), st.integers(0, 40), st.sampled_from((None, 1, 70, 2000)), st.data())
def test_compiled_and_plain_plans_are_equal(
    batch: tuple[list[int], list[int]], room: int, window: int | None, data: st.DataObject
) -> None:
    code = compiled_plans()
    if code is None:
        pytest.skip("nothing is compiled for this CPU")
    lcp, lens = batch
    group = data.draw(st.sampled_from((1, 2, 3, 4, 8, 16, 64)))
    padded = 1 << (group - 1).bit_length()
    own_rows = max(1, 8 // padded)
    rules = replace(
        _rules(len(lens), window, extra=data.draw(st.sampled_from((0, 2048)))),
        group=group,
        kv_heads=data.draw(st.sampled_from((1, 2, 8, 32))),
        own_rows=own_rows,
        few_rows=max(own_rows, 16 // padded),
        wide_rows=min(64, 128 // padded),
        max_items=data.draw(st.sampled_from((2 * len(lens) + 8, 2000))),
    )
    order = np.random.default_rng(room).permutation(len(lens)).astype(np.int32)
    plans = [Planner(rules, parts).plan(lcp, lens, room, order) for parts in (code, plan_reference)]
    for name in ("wide", "few", "own", "places", "ends", "launch"):
        np.testing.assert_array_equal(*(getattr(plan, name) for plan in plans))


@pytest.mark.parametrize("parts", [None, plan_reference])
def test_no_rows(parts: Parts | None) -> None:
    plan = Planner(_rules(), parts).plan([], [])
    assert plan.launch == Launch(rows=0, wide=0, few=0, own=0, tile=64, tokens=16)


def test_rounded_launches_cover() -> None:
    assert [round_up(n) for n in (0, 1, 8, 9, 33, 64, 65, 81, 129)] == [
        0, 8, 8, 16, 40, 64, 80, 96, 160,
    ]  # fmt: skip
    launch = Launch(rows=64, wide=9, few=1, own=300, tile=128, tokens=16)
    assert launch.rounded().covers(launch)
    assert not launch.covers(launch.rounded())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_shared_slots_and_order(data: st.DataObject) -> None:
    """Rows of a random tree, whose every node has slots of its own."""
    seed = data.draw(st.integers(0, 10_000))
    random = np.random.default_rng(seed)
    rows = [[int(x) for x in random.integers(0, 3, random.integers(0, 9))] for _ in range(20)]
    numbers: dict[tuple[int, ...], int] = {}
    slots: list[int] = []
    starts: list[int] = []
    for row in rows:
        starts.append(len(slots))
        slots += [
            numbers.setdefault((*row[: i + 1], j), len(numbers))
            for i in range(len(row))
            for j in range(3)
        ]
    lens = np.array([3 * len(row) for row in rows], np.int32)
    arrays = (np.array(slots, np.int32), np.array(starts, np.int64))
    lcp = neighbour_lcp(*arrays, lens)

    def shared(a: list[int], b: list[int]) -> int:
        return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b))) * 3

    assert lcp.tolist() == [0, *(shared(a, b) for a, b in pairwise(rows))]
    order = depth_first_order(*arrays, lens)
    assert sorted(order.tolist()) == list(range(20))
    for i in range(19):  # what comes later never shares more than the neighbour does
        most = max(shared(rows[order[i]], rows[order[j]]) for j in range(i + 1, 20))
        assert shared(rows[order[i]], rows[order[i + 1]]) == most


@pytest.mark.parametrize("rows", [1, 2])
def test_few_rows(rows: int) -> None:
    slots = np.arange(10, dtype=np.int32)
    starts, lens = np.zeros(rows, np.int64), np.full(rows, 10, np.int32)
    assert neighbour_lcp(slots, starts, lens).tolist() == [0, 10][:rows]
    assert sorted(depth_first_order(slots, starts, lens).tolist()) == list(range(rows))


@pytest.mark.parametrize(("before", "tokens"), [(1500, 256), (0, 256), (90, 40), (3000, 512)])
def test_new_tokens_of_one_row_are_read_together(before: int, tokens: int) -> None:
    """Each sees a token more than the one before it; a key is read once for most of a block."""
    lens = list(range(before + 1, before + tokens + 1))
    lcp = [0, *lens[:-1]]
    plan = Planner(_rules(512)).plan(lcp, lens, room=0)
    _check(plan, lcp, lens, 0, [0] * tokens)
    items = np.concatenate((plan.wide, plan.few, plan.own)).astype(np.int64)
    read = int((items[:, END] - items[:, START]).sum())
    assert read < 0.1 * sum(lens) + 16 * tokens
