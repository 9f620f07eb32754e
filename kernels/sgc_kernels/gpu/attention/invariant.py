"""Attention that does not depend on the batch: a token's result is a function of its own context.

`InvariantRows` has the interface of `DecodeAttention`, for steps over a slot table and for graphs;
`InvariantAttention` is the backend for any mix of new tokens, each of which is a row. Both launch
the same kernels (`invariant_kernels`) over plans of the same kind (`invariant_plan`), so a token
gets the same bits from either, beside whichever others, in one piece or in many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.gpu.attention.decode import Buffers
from sgc_kernels.gpu.attention.extend import is_wide
from sgc_kernels.gpu.attention.invariant_kernels import attend_chunks, merge_chunks
from sgc_kernels.gpu.attention.invariant_plan import ChunkPlan, Longs, Rules, plan_rows
from sgc_kernels.gpu.attention.items import Grids, Launch, round_up
from sgc_kernels.gpu.attention.parts import LOG2_E
from sgc_kernels.gpu.attention.plan import Ints, Plan
from sgc_kernels.gpu.attention.shared import shared_among
from sgc_kernels.gpu.attention.side_stream import SideStream
from sgc_kernels.gpu.attention.tables import upload_tables
from sgc_kernels.gpu.device import multiprocessors

_PROGRAMS = 2  # that a multiprocessor holds
_PARTS_A_ROW = 8
_MOST_PARTIALS = 8192  # of a step that is not in a graph, by 4 bytes x heads x head size


@dataclass(frozen=True, slots=True)
class Form:
    """What is fixed for a model; another form gives other bits."""

    lines: int  # of a tile: tokens x query heads of a key head
    chunk: int  # keys
    warps: int
    stages: int


@dataclass(frozen=True, slots=True)
class _Tables:
    """A step on the device."""

    folds: torch.Tensor  # [>= launch.own, ITEM] int32
    splits: torch.Tensor  # [>= launch.few, ITEM]
    places: torch.Tensor  # [>= launch.rows, PLACE]
    slots: torch.Tensor
    starts: torch.Tensor  # [rows]
    lens: torch.Tensor  # [rows] int32
    partial: torch.Tensor  # [partials, heads, head_dim] float32
    tops: torch.Tensor  # [partials, heads] float32
    totals: torch.Tensor


def choose_form(dtype: torch.dtype, head_dim: int) -> Form:
    """The form for a number format and head size."""
    if dtype == torch.float32:  # exact products run outside the matrix units
        return Form(lines=16, chunk=32, warps=4, stages=2)
    if head_dim <= 64:
        return Form(lines=64, chunk=64, warps=4, stages=3)
    if head_dim <= 128:
        return Form(lines=64, chunk=64, warps=4, stages=2)
    return Form(lines=64, chunk=32, warps=8, stages=2)


def _rules(
    shape: AttentionShape,
    form: Form,
    device: torch.device,
    window: int | None,
    max_items: int,
    max_partials: int,
) -> Rules:
    group = shape.num_heads // shape.num_kv_heads
    assert group <= form.lines, "a tile must hold one token of a key head"
    return Rules(
        rows=form.lines // group,
        chunk=form.chunk,
        kv_heads=shape.num_kv_heads,
        programs=_PROGRAMS * multiprocessors(device),
        max_items=max_items,
        max_partials=max_partials,
        window=window,
    )


class InvariantRows:
    """Buffers and kernels for one model (and one window), one query a row.

    Args:
        shape: of the model. float32 is multiplied exactly (no TF32).
        max_rows: most rows of a step.
        window: a token sees itself and the `window - 1` tokens before it; None: all.
    """

    def __init__(
        self,
        shape: AttentionShape,
        max_rows: int,
        device: torch.device | str,
        window: int | None = None,
        form: Form | None = None,
    ) -> None:
        device = torch.device(device)
        self.shape = shape
        self._window = window
        self._form = form or choose_form(shape.dtype, shape.head_dim)
        max_items = round_up(4 * max_rows + 256)
        max_partials = _PARTS_A_ROW * max_rows + 2048
        self._buffers = Buffers(device, max_rows, max_items)
        self._partials = _partials(shape, max_partials, device)
        self._rules = _rules(shape, self._form, device, window, max_items, max_partials)
        self._side = SideStream()
        self.launch: Launch | None = None

    def plan(
        self,
        lcp: Sequence[int] | Ints,
        lens: Sequence[int] | Ints,
        room: int = 16,
        order: Ints | None = None,
    ) -> ChunkPlan:
        """See `plan_rows`; without `order`, place = row."""
        assert len(lens) <= self._buffers.max_rows, "more rows than the buffers hold"
        if order is None:
            order = np.arange(len(lens), dtype=np.int32)
        return plan_rows(
            self._rules, np.asarray(lcp, np.int64), np.asarray(lens, np.int64), room, order
        )

    def grids(self, launch: Launch) -> Grids:
        """See `RowAttention.grids`. There is no bound by rows alone: a token more in common may
        make a split of each chunk."""
        return Grids(launch.rounded(), launch.rounded())

    def load(self, plan: Plan) -> None:
        """Bring a plan to the device, in the order of the current stream; no waiting."""
        self._buffers.load(plan)
        self.launch = plan.launch

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
        """As `DecodeAttention.run`."""
        launch = launch or self.launch
        assert launch is not None, "no plan is loaded"
        assert self._buffers.hold(launch), "the launch is larger than the buffers"
        buffers = self._buffers
        tables = _Tables(
            buffers.items(2), buffers.items(1), buffers.places, slots, starts, lens, *self._partials
        )
        model = self._side, self.shape, self._form, self._window
        _launch(*model, tables, launch, q, k_cache, v_cache, out)
        return out


class InvariantAttention:
    """The backend for one model; it holds no state but the windows seen so far and a stream."""

    name = "invariant"

    def __init__(self, form: Form | None = None) -> None:
        self.form = form
        # Windows of the layers so far: a plan prepares them, others when they come up.
        self.windows: set[int | None] = set()
        self.side = SideStream()

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        return _InvariantPlan(self, meta, shape)


class _InvariantPlan:
    def __init__(
        self, backend: InvariantAttention, meta: AttentionMeta, shape: AttentionShape
    ) -> None:
        self._backend, self._shape = backend, shape
        self._form = backend.form or choose_form(shape.dtype, shape.head_dim)
        self._slots = meta.kv_slots.int()
        self._starts, self._lens, self._lcp = _rows(meta)
        self._longest = int(self._lens.max(initial=0))
        self._steps: dict[int | None, tuple[_Tables, Launch]] = {}
        self._partials: tuple[torch.Tensor, ...] | None = None
        for window in backend.windows:
            self._step(window)

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        self._backend.windows.add(window)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        tables, launch = self._step(window)
        model = self._backend.side, self._shape, self._form, self._bound(window)
        _launch(*model, tables, launch, q, k_cache, v_cache, out)
        return out

    def _bound(self, window: int | None) -> int | None:
        """None where the window hides nothing."""
        return None if window is None or window >= self._longest else window

    def _step(self, window: int | None) -> tuple[_Tables, Launch]:
        window = self._bound(window)
        if window not in self._steps:
            self._steps[window] = self._make_step(window)
        return self._steps[window]

    def _make_step(self, window: int | None) -> tuple[_Tables, Launch]:
        device, rows = self._slots.device, len(self._lens)
        limits = (2 * rows + 4096, _MOST_PARTIALS)
        rules = _rules(self._shape, self._form, device, window, *limits)
        plan = plan_rows(rules, self._lcp, self._lens, 0, np.arange(rows, dtype=np.int32))
        own, few, places, starts, lens = upload_tables(
            [plan.own, plan.few, plan.places, self._starts, self._lens], device
        )
        room = self._room(plan.num_partials)
        return _Tables(own, few, places, self._slots, starts, lens, *room), plan.launch

    def _room(self, count: int) -> tuple[torch.Tensor, ...]:
        """Memory for `count` partial results, which all layers reuse."""
        if self._partials is None or self._partials[1].shape[0] < count:
            self._partials = _partials(self._shape, count, self._slots.device)
        return self._partials


def _rows(meta: AttentionMeta) -> tuple[Longs, Longs, Longs]:
    """For each new token where its slots begin, how many keys it sees, and how many of them the
    token before sees in the same slots."""
    qo, kv, ends = (x.numpy().astype(np.int64) for x in (meta.qo_indptr, meta.kv_indptr, meta.ends))
    queries, length = np.diff(qo), ends - kv[:-1]
    some = np.flatnonzero(queries)
    shared = np.zeros(len(queries), np.int64)
    if meta.shared is not None:
        shared[some] = shared_among(meta.shared.numpy().astype(np.int64), some)
    owner = np.repeat(np.arange(len(queries)), queries)
    token = np.arange(int(qo[-1]))
    lens = length[owner] - queries[owner] + token - qo[owner] + 1
    lcp = np.where(token == qo[owner], shared[owner], lens - 1)
    lcp[1:] = np.minimum(lcp[1:], lens[:-1])
    return kv[owner], lens, np.minimum(lcp, lens)


def _partials(shape: AttentionShape, count: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    size = (count, shape.num_heads)
    sizes: tuple[tuple[int, ...], ...] = ((*size, shape.head_dim), size, size)
    return tuple(torch.empty(some, dtype=torch.float32, device=device) for some in sizes)


def _launch(
    side: SideStream,
    shape: AttentionShape,
    form: Form,
    window: int | None,
    tables: _Tables,
    launch: Launch,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    out: torch.Tensor,
) -> None:
    """Attention of one layer.

    Args:
        side: where what needs no merging runs beside the rest.
        q: `[rows, num_heads, head_dim]`; rows may lie apart, heads not.
        k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`.
        out: as `q`, written for the rows of the plan.
    """
    for tensor in (q, k_cache, v_cache, out):
        assert tensor.stride()[1:] == (shape.head_dim, 1), "heads must lie side by side"
    model: dict[str, Any] = {
        "HEADS": shape.num_heads,
        "DIM": shape.head_dim,
        "DIM_PAD": max(16, 1 << (shape.head_dim - 1).bit_length()),
        "WINDOW": window or 0,
        "CHUNK": form.chunk,
    }
    partials = (tables.partial, tables.tops, tables.totals)

    def attend(items: torch.Tensor, count: int, folds: bool) -> None:
        attend_chunks[(count * shape.num_kv_heads,)](
            q, k_cache, v_cache, tables.slots, tables.starts, tables.lens, items, tables.places,
            *partials, out, shape.scale * LOG2_E,
            q.stride(0), k_cache.stride(0), v_cache.stride(0), out.stride(0),
            KV_HEADS=shape.num_kv_heads,
            LINES=form.lines,
            STAGES=form.stages,
            PRECISION="ieee" if shape.dtype == torch.float32 else "tf32",
            WIDE=is_wide(k_cache, v_cache),
            FOLDS=folds,
            num_warps=form.warps,
            **model,
        )  # fmt: skip

    with side.beside(q.device, launch.own > 0 and launch.few > 0):
        if launch.own:
            attend(tables.folds, launch.own, True)
    if launch.few == 0:
        return
    attend(tables.splits, launch.few, False)
    side.join(q.device)
    some_heads = 1 if launch.rows <= 16 else 4
    merge_chunks[(-(-shape.num_heads // some_heads), launch.rows)](
        *partials, tables.lens, tables.places, out, out.stride(0),
        SOME_HEADS=some_heads, AT_ONCE=8 if some_heads == 1 else 4, num_warps=1,
        **model,
    )  # fmt: skip
