"""Plans decode attention from how many tokens neighbouring rows share.

The batch is cut into blocks of neighbours where they share least; a block becomes a tree of
spans; long spans are split into items, and partial results are numbered. On the host, compiled
(`plan_compiled`) where that is offered, else in NumPy (`plan_reference`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sgc_kernels.gpu.attention import plan_reference
from sgc_kernels.gpu.attention.items import PLACE_ROW, Launch
from sgc_kernels.gpu.attention.plan_compiled import compiled_plans
from sgc_kernels.gpu.attention.plan_rules import Rules, Sizes, Totals

Ints = NDArray[np.int32]


class Parts(Protocol):
    """What plans are made with; the module `plan_reference` says what each function does."""

    def spans(self, rules: Rules, lcp: Ints, lens: Ints, most: int) -> tuple[Ints, Totals]: ...

    def items(
        self, rules: Rules, found: Ints, sizes: Sizes, order: Ints, room: int
    ) -> tuple[tuple[Ints, Ints, Ints], Ints, Ints]: ...


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

    def __init__(self, rules: Rules, parts: Parts | None = None) -> None:
        self._rules = rules
        self._parts: Parts = parts or compiled_plans() or plan_reference

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
            room: tokens by which a row may grow before the next plan, but for one all of whose
                tokens are shared.
        """
        lcp, lens = np.asarray(lcp, np.int32), np.asarray(lens, np.int32)
        order = np.arange(len(lens), dtype=np.int32) if order is None else order
        spans, totals = self._spans(lcp, lens)
        sizes = self._sizes(totals, room * len(lens))
        items, places, ends = self._parts.items(self._rules, spans, sizes, order, room)
        wide, few, own = items
        launch = Launch(
            rows=len(order),
            wide=len(wide),
            few=len(few),
            own=len(own),
            tile=self._rules.tile(totals.largest_wide),
            tokens=sizes.step,
        )
        return Plan(wide, few, own, places, ends, launch)

    def _spans(self, lcp: Ints, lens: Ints) -> tuple[Ints, Totals]:
        """The spans of all rows, in blocks as large as pays."""
        most = self._rules.wide_rows
        spans, totals = self._parts.spans(self._rules, lcp, lens, most)
        if not self._is_crowded(totals):
            return spans, totals
        halves, of_halves = self._parts.spans(self._rules, lcp, lens, most // 2)
        # Programs of half the rows: twice as many live on a multiprocessor.
        faster = self._wide_us(of_halves) / 2 < 0.8 * self._wide_us(totals)
        pays = faster and of_halves.narrow_tokens < 1.1 * totals.narrow_tokens
        return (halves, of_halves) if pays else (spans, totals)

    def _is_crowded(self, totals: Totals) -> bool:
        """Whether wide programs wait for each other, and would fit better in smaller blocks."""
        rules, half = self._rules, self._rules.wide_rows // 2
        if half <= 2 * rules.few_rows or rules.tile(half) > 64:
            return False
        many = totals.wide * rules.kv_heads > rules.tuning.many_programs
        return many and totals.largest_wide > half

    def _wide_us(self, totals: Totals) -> float:
        """What the wide programs of one head take, one after the other."""
        tuning = self._rules.tuning
        blocks = totals.wide_tokens / 64
        return totals.wide * tuning.wide_fixed_us + blocks * tuning.wide_block_us

    def _sizes(self, totals: Totals, growth: int) -> Sizes:
        # The mean over tokens of how long the own span is that they belong to.
        long = totals.own_squares > self._rules.tuning.short * totals.own_tokens
        step = 64 if long else 16
        return Sizes(self._wide_size(totals, growth), self._narrow_size(totals), step)

    def _wide_size(self, totals: Totals, growth: int) -> int:
        """Tokens of a piece of a wide span; `growth` is how many all rows may come to have more."""
        rules, tuning = self._rules, self._rules.tuning
        bytes_beside = (totals.narrow_tokens + growth) * rules.token_bytes
        beside_us = 1.2 * bytes_beside / tuning.bytes_per_us
        work_us = totals.wide_tokens * rules.kv_heads * tuning.wide_block_us / 64
        hidden = work_us / max(1.0, beside_us - tuning.wide_fixed_us)
        programs = tuning.few_programs if hidden <= tuning.few_programs else tuning.many_programs
        return max(tuning.least_wide, -(-totals.wide_tokens * rules.kv_heads // programs))

    def _narrow_size(self, totals: Totals) -> int:
        """Tokens of a piece of an own span, or one that few share."""
        tuning, heads = self._rules.tuning, self._rules.kv_heads
        if totals.narrow * heads >= tuning.enough_programs:
            return tuning.most_narrow
        work = totals.narrow_tokens * heads
        least = min(tuning.least_narrow, max(64, work // tuning.least_programs))
        return min(tuning.most_narrow, max(least, work // tuning.narrow_programs))
