"""Attention in Triton for any mix of new tokens and decode rows.

Sequences with one query are decode rows, whose shared prefixes are read once a step
(`DecodeAttention`); those with more go through the extend kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.gpu.attention.decode import DecodeAttention
from sgc_kernels.gpu.attention.extend import (
    ITEM,
    MERGE,
    Tile,
    attend_items,
    merge_partials,
    prepared_items,
    prepared_merge,
    tiles,
)
from sgc_kernels.gpu.attention.extend_plan import Numbers, Rows, plan_extend
from sgc_kernels.gpu.attention.plan import Plan
from sgc_kernels.gpu.attention.shared import shared_among
from sgc_kernels.gpu.attention.tables import upload_tables
from sgc_kernels.gpu.device import multiprocessors
from sgc_kernels.gpu.launcher import Prepared

_LEAST_ROWS = 64  # of decode buffers, which double when a step has more


class TritonAttention:
    """The backend for one model. It keeps buffers for decode rows between steps, in the order of
    the stream: a plan runs in all layers before the next one does."""

    name = "triton"

    def __init__(self) -> None:
        self._decoders: dict[tuple[AttentionShape, torch.device, int | None], _Decoder] = {}
        # Windows of the layers so far: a plan prepares them, others when they come up.
        self.windows: set[int | None] = set()

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        return _TritonPlan(self, meta, shape)

    def decoder(
        self, shape: AttentionShape, device: torch.device, window: int | None, rows: int
    ) -> _Decoder:
        """Kernels and buffers for at least `rows` decode rows."""
        key = (shape, device, window)
        if key not in self._decoders or self._decoders[key].max_rows < rows:
            most = max(_LEAST_ROWS, 1 << (rows - 1).bit_length())
            self._decoders[key] = _Decoder(DecodeAttention(shape, most, device, window), most)
        return self._decoders[key]


@dataclass(slots=True)
class _Decoder:
    attention: DecodeAttention
    max_rows: int
    loaded: Plan | None = None  # what the buffers hold


@dataclass(frozen=True, slots=True)
class _DecodeRows:
    """The sequences of a step with one query; an entry each."""

    row: npt.NDArray[np.int32]  # of q
    context: npt.NDArray[np.int32]  # offset of the slots
    length: npt.NDArray[np.int32]
    shared: npt.NDArray[np.int32]  # leading slots, with the entry before


class _TritonPlan:
    def __init__(
        self, backend: TritonAttention, meta: AttentionMeta, shape: AttentionShape
    ) -> None:
        assert shape.num_heads % shape.num_kv_heads == 0, "query heads must divide by key heads"
        self._backend = backend
        self._shape = shape
        self._slots = meta.kv_slots.int()
        self._new, self._decode = _split(meta)
        lengths = np.concatenate([self._new.length, self._decode.length])
        self._longest = int(lengths.max(initial=0))
        self._steps: dict[int | None, _Step] = {}
        self._partials: tuple[torch.Tensor, torch.Tensor] | None = None
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
        step = self._step(window)
        partials = self._room(step.num_partials)
        for tile, items in step.items:
            _attend_of(tile)(
                q, k_cache, v_cache, self._slots, items, tile, self._shape.scale, step.window, out,
                partials,
            )  # fmt: skip
        if len(step.merges):
            merge_partials(partials, step.merges, out)
        if step.decode is not None:
            self._attend_decode(step, step.decode, q, k_cache, v_cache, out)
        return out

    def prepared(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None,
        out: torch.Tensor,
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """See `PreparedPlan`."""
        self._backend.windows.add(window)
        step = self._step(window)
        partials, scale = self._room(step.num_partials), self._shape.scale
        items = [
            _prepared_of(tile)(
                q, k_cache, v_cache, self._slots, table, tile, scale, step.window, out, partials
            )
            for tile, table in step.items
        ]
        merge = prepared_merge(partials, step.merges, out) if len(step.merges) else None
        decode = None
        if step.decode is not None:
            arrays = (q, k_cache, v_cache, self._slots, step.starts, step.lens)
            decode = self._loaded(step, step.decode).prepared(arrays, out)

        def attend(k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
            for some in items:
                some(k_cache, v_cache)
            if merge is not None:
                merge()
            if decode is not None:
                decode(k_cache, v_cache)

        return attend

    def _attend_decode(
        self,
        step: _Step,
        plan: Plan,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        attention = self._loaded(step, plan)
        attention.run(q, k_cache, v_cache, self._slots, step.starts, step.lens, out)

    def _loaded(self, step: _Step, plan: Plan) -> DecodeAttention:
        """Kernels and buffers that hold `plan`."""
        rows = len(self._decode.row)
        decoder = self._backend.decoder(self._shape, self._slots.device, step.window, rows)
        if decoder.loaded is not plan:
            decoder.attention.load(plan)
            decoder.loaded = plan
        return decoder.attention

    def _step(self, window: int | None) -> _Step:
        """What layers with this window need, made once."""
        if window is not None and window >= self._longest:
            window = None  # it hides nothing
        if window not in self._steps:
            self._steps[window] = self._make_step(window)
        return self._steps[window]

    def _make_step(self, window: int | None) -> _Step:
        shape, device, rows = self._shape, self._slots.device, self._decode
        decode = None
        if len(rows.row):
            decoder = self._backend.decoder(shape, device, window, len(rows.row)).attention
            decode = decoder.plan(rows.shared, rows.length, room=0, order=rows.row)
        return _Step(self._new, rows, decode, shape, window, device)

    def _room(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory for `count` partial results of a token, which all layers reuse."""
        if self._partials is None or self._partials[1].shape[0] < count:
            size, device = (count, self._shape.num_heads), self._slots.device
            sums = torch.empty((*size, self._shape.head_dim), dtype=torch.float32, device=device)
            self._partials = sums, torch.empty(size, dtype=torch.float32, device=device)
        return self._partials


class _Step:
    """Tables of a step for one window, on the device; those of decode rows are loaded later."""

    def __init__(
        self,
        new: Rows,
        decode_rows: _DecodeRows,
        decode: Plan | None,
        shape: AttentionShape,
        window: int | None,
        device: torch.device,
    ) -> None:
        plan = plan_extend(
            new,
            tiles(shape.dtype, shape.head_dim, _on_hopper(device, shape)),
            shape.num_heads,
            shape.num_kv_heads,
            window,
            multiprocessors(device),
        )
        tables = [items for _, items in plan.items]
        # By rows of q, as decode kernels number their rows; those of other rows are not read.
        places = np.zeros((2, int(decode_rows.row.max(initial=-1)) + 1), np.int32)
        places[:, decode_rows.row] = decode_rows.context, decode_rows.length
        merges, starts, lens, *items = upload_tables([plan.merges, *places, *tables], device)
        self.window = window
        self.items = [
            (tile, table.view(-1, ITEM)) for (tile, _), table in zip(plan.items, items, strict=True)
        ]
        self.merges = merges.view(-1, MERGE)
        self.num_partials = plan.num_partials
        self.decode, self.starts, self.lens = decode, starts, lens


def _split(meta: AttentionMeta) -> tuple[Rows, _DecodeRows]:
    qo, kv, ends = (_numbers(x) for x in (meta.qo_indptr, meta.kv_indptr, meta.ends))
    queries, length = np.diff(qo), ends - kv[:-1]
    shared = np.zeros_like(length) if meta.shared is None else _numbers(meta.shared)
    many, one = np.flatnonzero(queries > 1), np.flatnonzero(queries == 1)
    together = shared_among(shared, many)
    # Rows of q between two sequences are not of their group.
    together[1:][qo[many[:-1] + 1] < qo[many[1:]]] = 0
    new = Rows(qo[many], queries[many], kv[many], length[many], together)
    decode = (qo[one], kv[one], length[one], shared_among(shared, one))
    return new, _DecodeRows(*(array.astype(np.int32) for array in decode))


def _numbers(tensor: torch.Tensor) -> Numbers:
    return tensor.numpy().astype(np.int64)


def _on_hopper(device: torch.device, shape: AttentionShape) -> bool:
    if device.type == "cpu" or shape.kept != shape.dtype:
        return False
    from sgc_kernels.gpu.attention import extend_hopper

    return extend_hopper.can_attend(device, shape.dtype, shape.head_dim)


def _attend_of(tile: Tile) -> Callable[..., None]:
    if not tile.hopper:
        return attend_items
    from sgc_kernels.gpu.attention import extend_hopper

    return extend_hopper.attend_items


def _prepared_of(tile: Tile) -> Callable[..., Prepared]:
    if not tile.hopper:
        return prepared_items
    from sgc_kernels.gpu.attention import extend_hopper

    return extend_hopper.prepared_items
