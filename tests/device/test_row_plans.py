"""When plans are kept, and what rows share."""

from __future__ import annotations

import random
from typing import cast

import numpy as np
import pytest
import torch

from sgc_kernels.attention.rows import TorchRows
from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.plan_compiled import compiled_plans
from sgc_runtime.device.row_plans import ROOM, RowPlans, share
from sgc_runtime.device.slot_table import SlotTable

SHAPE = AttentionShape(4, 2, 16, 0.25, torch.float32)


class Table:
    """As much of a slot table as plans look at."""

    def __init__(self, rows: int, context: int) -> None:
        self.mirror = np.zeros((rows, context), np.int32)
        self.changed: set[int] = set()


def plans_of(table: Table) -> RowPlans:
    attention = TorchRows(SHAPE, 64, torch.device("cpu"))
    return RowPlans([attention], cast(SlotTable, table))


def numbers_of(rows: list[int], lens: list[int]) -> np.ndarray:
    numbers = np.zeros((len(rows), 4), np.int32)
    numbers[:, 0], numbers[:, 2] = rows, np.array(lens) - 1
    return numbers


def test_plans_are_kept_while_rows_grow() -> None:
    plans = plans_of(Table(5, 400))
    for grown in range(ROOM + 1):
        plans.load(numbers_of([3, 1], [10 + grown, 20 + grown]))
    assert plans.made == 1
    plans.load(numbers_of([3, 1], [11 + ROOM, 21 + ROOM]))
    assert plans.made == 2


def test_plans_are_made_anew() -> None:
    table = Table(5, 400)
    plans = plans_of(table)
    steps = [
        ([3, 1], [10, 20], set()),
        ([1, 3], [20, 10], set()),  # another order
        ([1, 3, 3], [20, 10, 11], set()),  # more tokens of a row
        ([1, 3, 3], [20, 9, 10], set()),  # some were taken back
        ([1, 3, 3], [20, 9, 10], {3}),  # slots have changed
    ]
    for made, (rows, lens, changed) in enumerate(steps, 1):
        table.changed |= changed
        plans.load(numbers_of(rows, lens))
        assert plans.made == made
        assert not table.changed
    table.changed.add(4)  # a row of none of these
    plans.load(numbers_of(*steps[-1][:2]))
    assert plans.made == len(steps)


def trees(seed: int) -> tuple[Table, np.ndarray, np.ndarray]:
    """A table of rows that share with each other, and tokens of a step: rows and lengths."""
    chance = random.Random(seed)
    count, context = chance.choice((1, 2, 5, 9, 60)), 60
    table = Table(count, context)
    fresh = iter(range(1, 10_000))
    lengths: list[int] = []
    for row in range(count):
        length = chance.randint(1, 40)
        kept = 0
        if row and chance.random() < 0.8:
            other = chance.randrange(row)
            kept = min(length, chance.randint(0, lengths[other]))
            table.mirror[row, :kept] = table.mirror[other, :kept]
        table.mirror[row, kept:length] = [next(fresh) for _ in range(length - kept)]
        lengths.append(length)
    rows: list[int] = []
    lens: list[int] = []
    for row in chance.sample(range(count), count):
        new = min(lengths[row], chance.choice((1, 1, 1, 4)))
        rows += [row] * new
        lens += range(lengths[row] - new + 1, lengths[row] + 1)
    return table, np.array(rows, np.int32), np.array(lens, np.int32)


@pytest.mark.parametrize("compiled", [False, True])
def test_what_rows_share(compiled: bool) -> None:
    """Against a look at every pair of neighbours."""
    code = compiled_plans()
    if compiled and code is None:
        pytest.skip("nothing is compiled for this CPU")
    for seed in range(40):
        table, rows, lens = trees(seed)
        lcp, order = (
            code.share(table.mirror, rows, lens)
            if compiled and code
            else share(table.mirror, rows, lens)
        )
        assert sorted(order.tolist()) == list(range(len(rows)))
        for place in range(1, len(rows)):
            a, b = order[place - 1], order[place]
            both = min(lens[a], lens[b])
            same = table.mirror[rows[a], :both] == table.mirror[rows[b], :both]
            common = both if same.all() else int(np.argmin(same))
            assert min(int(lcp[place]), both) == common


def test_compiled_and_plain_agree() -> None:
    code = compiled_plans()
    if code is None:
        pytest.skip("nothing is compiled for this CPU")
    for seed in range(300):
        table, rows, lens = trees(seed)
        for one, other in zip(
            code.share(table.mirror, rows, lens), share(table.mirror, rows, lens), strict=True
        ):
            np.testing.assert_array_equal(one, other)
