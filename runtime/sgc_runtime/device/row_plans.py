"""Plans of attention for steps of decode rows, kept while the same rows grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgc_kernels.attention.rows import RowAttention
from sgc_kernels.gpu.attention.items import Launch
from sgc_kernels.gpu.attention.plan import Plan
from sgc_kernels.gpu.attention.plan_compiled import compiled_plans
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp
from sgc_kernels.step import POSITION, ROW
from sgc_runtime.device.slot_table import SlotTable

Ints = NDArray[np.int32]
ROOM = 32  # tokens by which rows may grow before they are planned anew


@dataclass(frozen=True, slots=True)
class _Planned:
    """Plans of all windows, for these rows of the slot table while they have at least `lens`."""

    rows: Ints
    lens: Ints
    plans: Sequence[Plan]

    def holds(self, rows: Ints, lens: Ints) -> bool:
        if not np.array_equal(rows, self.rows) or not (lens >= self.lens).all():
            return False
        return all(plan.holds(lens) for plan in self.plans)


class RowPlans:
    """Plans for the attention objects of a model, one for each window.

    Attributes:
        made: how many steps needed new plans.
    """

    def __init__(self, attentions: Sequence[RowAttention], table: SlotTable) -> None:
        self._attentions, self._table = attentions, table
        self._planned: _Planned | None = None
        compiled = compiled_plans()
        self._share = share if compiled is None else compiled.share
        self.made = 0

    def load(self, numbers: Ints) -> list[Launch]:
        """Bring the plans of a step to the device, unless they are there; `numbers` as in
        `SlotTable.number`."""
        rows, lens = numbers[:, ROW], numbers[:, POSITION] + 1
        if self._table.changed:
            self._drop_changed()
        if self._planned is None or not self._planned.holds(rows, lens):
            self._planned = self._plan(rows.copy(), lens)
            self.made += 1
            for attention, plan in zip(self._attentions, self._planned.plans, strict=True):
                attention.load(plan)
        return [plan.launch for plan in self._planned.plans]

    def _drop_changed(self) -> None:
        changed = self._table.changed
        if self._planned is not None and not changed.isdisjoint(self._planned.rows.tolist()):
            self._planned = None
        changed.clear()

    def _plan(self, rows: Ints, lens: Ints) -> _Planned:
        lcp, order = self._share(self._table.mirror, rows, lens)
        lengths = lens[order]
        plans = [a.plan(lcp, lengths, ROOM, order) for a in self._attentions]
        return _Planned(rows, lens, plans)


def share(mirror: Ints, rows: Ints, lens: Ints) -> tuple[Ints, Ints]:
    """What the tokens of a step share: leading slots that each place shares with the one before,
    and the token at each place, depth first. The reference of `CompiledPlans.share`.

    Args:
        rows, lens: of each token, the row of the table and how many slots it sees. Tokens of the
            same row stand beside each other, and see a slot more each.
    """
    if len(rows) == 1:
        return np.zeros(1, np.int32), np.zeros(1, np.int32)
    first = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    counts = np.diff(np.append(first, len(rows)))
    ends = lens[first + counts - 1]
    slots, starts = mirror.reshape(-1), rows[first].astype(np.int64) * mirror.shape[1]
    units = depth_first_order(slots, starts, ends)
    between = neighbour_lcp(slots, starts[units], ends[units])
    if len(units) == len(rows):
        return between, units
    counts, first = counts[units], first[units]
    begin = np.cumsum(counts) - counts  # place of each unit's first token
    order = (np.arange(len(rows)) + np.repeat(first - begin, counts)).astype(np.int32)
    lcp = np.zeros(len(rows), np.int32)
    lcp[1:] = lens[order[:-1]]  # within a unit: all that the token before sees
    lcp[begin] = between
    return lcp, order
