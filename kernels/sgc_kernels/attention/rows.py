"""The contract of attention over a slot table, one query a row, for steps that a graph replays; and
its reference in plain torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.items import (
    COUNT,
    END,
    FIRST,
    ITEM,
    PART,
    PLACE_ROW,
    ROW,
    START,
    Grids,
    Launch,
)
from sgc_kernels.gpu.attention.plan import Plan, Planner
from sgc_kernels.gpu.attention.plan_rules import Rules

Ints = NDArray[np.int32]


class RowAttention(Protocol):
    """Attention of one model and one window. Which rows share what is planned on the host and
    loaded; `run` reads no number of the host, so a graph may hold it."""

    def plan(
        self,
        lcp: Sequence[int] | Ints,
        lens: Sequence[int] | Ints,
        room: int = 16,
        order: Ints | None = None,
    ) -> Plan:
        """See `Planner.plan`."""
        ...

    def grids(self, launch: Launch) -> Grids:
        """What to record a step of `launch.rows` rows with, so that few recordings serve many
        plans: those of fewer rows, too."""
        ...

    def load(self, plan: Plan) -> None:
        """Bring a plan to the device, in the order of the current stream."""
        ...

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        starts: torch.Tensor,
        lens: torch.Tensor,
        out: torch.Tensor,
        launch: Launch | None = None,
    ) -> torch.Tensor:
        """Attention of one layer by the loaded plan.

        Args:
            q: `[rows, num_heads, head_dim]`.
            k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`; only slots named are read.
            slots: int32; row b's lie from `starts[b]` on.
            lens: `[rows]` int32, the new token included.
            out: `[rows, num_heads, head_dim]`, written for the rows of the plan.
            launch: grids that cover the plan's; None: those of the plan.
        """
        ...


@dataclass
class TorchRows:
    """The reference. It follows a plan's items as kernels do, so a plan that is not valid for the
    slots shows in the results."""

    shape: AttentionShape
    max_rows: int
    device: torch.device
    window: int | None = None

    def __post_init__(self) -> None:
        group = self.shape.num_heads // self.shape.num_kv_heads
        self._rules = Rules(
            kv_heads=self.shape.num_kv_heads,
            group=group,
            token_bytes=2 * self.shape.num_kv_heads * self.shape.head_dim * 2,
            own_rows=2,
            few_rows=4,
            wide_rows=32,
            max_partials=1 << 20,
            max_items=1 << 20,
            window=self.window,
        )
        self._planner = Planner(self._rules)
        self._plan: Plan | None = None

    def plan(
        self,
        lcp: Sequence[int] | Ints,
        lens: Sequence[int] | Ints,
        room: int = 16,
        order: Ints | None = None,
    ) -> Plan:
        assert len(lens) <= self.max_rows, "more rows than there is room for"
        return self._planner.plan(lcp, lens, room, order)

    def grids(self, launch: Launch) -> Grids:
        return self._rules.grids(launch)

    def load(self, plan: Plan) -> None:
        self._plan = plan

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
        starts: torch.Tensor,
        lens: torch.Tensor,
        out: torch.Tensor,
        launch: Launch | None = None,
    ) -> torch.Tensor:
        assert self._plan is not None, "no plan is loaded"
        assert launch is None or launch.covers(self._plan.launch), "the launch covers the plan"
        firsts, lengths = starts.tolist(), lens.tolist()
        for row, spans in _spans(self._plan).items():
            oldest = 0 if self.window is None else max(0, lengths[row] - self.window)
            seen = [
                slots[firsts[other] + max(start, oldest) : firsts[other] + min(end, lengths[other])]
                for other, start, end in spans
            ]
            out[row] = self._attend(q[row], k_cache, v_cache, torch.cat(seen).long())
        return out

    def _attend(
        self, q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """`[num_heads, head_dim]` of one query over the slots that it sees."""
        shape = self.shape
        query = q.view(shape.num_kv_heads, -1, shape.head_dim).float()
        keys, values = k_cache[seen].float(), v_cache[seen].float()
        shares = (torch.einsum("hgd,thd->hgt", query, keys) * shape.scale).softmax(-1)
        found = torch.einsum("hgt,thd->hgd", shares, values)
        return found.reshape(shape.num_heads, shape.head_dim).to(q.dtype)


def _spans(plan: Plan) -> dict[int, list[tuple[int, int, int]]]:
    """For each row of a plan (row whose slots are read, first token, behind the last), in order."""
    items = np.concatenate([x.reshape(-1, ITEM) for x in (plan.wide, plan.few, plan.own)])
    rows: Sequence[int] = plan.places[:, PLACE_ROW].tolist()
    found: dict[int, list[tuple[int, int, int]]] = {row: [] for row in rows}
    for item in items[np.argsort(items[:, PART], kind="stable")].tolist():
        for place in range(item[FIRST], item[FIRST] + item[COUNT]):
            found[rows[place]].append((item[ROW], item[START], item[END]))
    return found
