"""Attention in Triton for any mix of new tokens and decode rows."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.gpu.attention.extend import ITEM, MERGE, Tile, attend_items, merge_partials, tiles
from sgc_kernels.gpu.attention.extend_plan import Numbers, Rows, plan_extend


class TritonAttention:
    """The backend; a plan holds its own memory."""

    name = "triton"

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        return _TritonPlan(meta, shape)


class _TritonPlan:
    def __init__(self, meta: AttentionMeta, shape: AttentionShape) -> None:
        assert shape.num_heads % shape.num_kv_heads == 0, "query heads must divide by key heads"
        self._slots = meta.kv_slots
        self._shape = shape
        self._rows = _rows(meta)
        self._longest = int(self._rows.length.max(initial=0))
        self._steps: dict[int | None, _Step] = {}
        self._partials: tuple[torch.Tensor, torch.Tensor] | None = None
        self._step(None)

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        if window is not None and window >= self._longest:
            window = None
        step = self._step(window)
        partials = self._room(step.num_partials)
        for tile, items in step.items:
            attend_items(
                q, k_cache, v_cache, self._slots, items, tile, self._shape.scale, window, out,
                partials,
            )  # fmt: skip
        if len(step.merges):
            merge_partials(partials, step.merges, out)
        return out

    def _step(self, window: int | None) -> _Step:
        """The tables for layers with this window, made at the first of them."""
        if window not in self._steps:
            self._steps[window] = _Step(self._rows, self._shape, window, self._slots.device)
        return self._steps[window]

    def _room(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory for `count` partial results of a token, which all layers reuse."""
        if self._partials is None or self._partials[1].shape[0] < count:
            shape, device = self._shape, self._slots.device
            sums = torch.empty(
                (count, shape.num_heads, shape.head_dim), dtype=torch.float32, device=device
            )
            logs = torch.empty((count, shape.num_heads), dtype=torch.float32, device=device)
            self._partials = sums, logs
        return self._partials


class _Step:
    """Tables of a step on the device, for one window."""

    def __init__(
        self, rows: Rows, shape: AttentionShape, window: int | None, device: torch.device
    ) -> None:
        plan = plan_extend(
            rows,
            tiles(shape.dtype, shape.head_dim),
            shape.num_heads,
            shape.num_kv_heads,
            window,
            _multiprocessors(device),
        )
        sizes = [items.size for _, items in plan.items]
        table = _upload([items for _, items in plan.items] + [plan.merges], device)
        *items, merges = torch.split(table, [*sizes, plan.merges.size])
        self.items: list[tuple[Tile, torch.Tensor]] = [
            (tile, mine.view(-1, ITEM)) for (tile, _), mine in zip(plan.items, items, strict=True)
        ]
        self.merges = merges.view(-1, MERGE)
        self.num_partials = plan.num_partials


def _rows(meta: AttentionMeta) -> Rows:
    qo, kv = _numbers(meta.qo_indptr), _numbers(meta.kv_indptr)
    ends = _numbers(meta.ends)
    queries, length = np.diff(qo), ends - kv[:-1]
    some = np.flatnonzero(queries > 0)
    return Rows(qo[:-1][some], queries[some], kv[:-1][some], length[some])


def _numbers(tensor: torch.Tensor) -> Numbers:
    return tensor.numpy().astype(np.int64)


def _upload(tables: list[npt.NDArray[np.int32]], device: torch.device) -> torch.Tensor:
    """All tables in one copy, for which the device is not waited."""
    table = torch.from_numpy(np.concatenate([table.ravel() for table in tables]))
    if device.type == "cpu":
        return table
    return table.pin_memory().to(device, non_blocking=True)


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    if device.type == "cpu":
        return 4  # the interpreter: few, so that small contexts are cut and left whole by turns
    return int(torch.cuda.get_device_properties(device).multi_processor_count)
