"""Decode attention with shared prefixes: one query a row, each shared token read once a step.

A step is planned on the host (`plan`), its items are loaded into buffers that stay where they are
(`load`), and every layer runs the same launches (`run`), eagerly or inside a CUDA graph: wide spans
on a second stream beside own ones, in a graph those that few share on a third, then the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.items import ITEM, PLACE, Grids, Launch, round_up
from sgc_kernels.gpu.attention.merge import merge_partials
from sgc_kernels.gpu.attention.narrow import attend_narrow
from sgc_kernels.gpu.attention.parts import LOG2_E
from sgc_kernels.gpu.attention.plan import Ints, Plan, Planner
from sgc_kernels.gpu.attention.plan_rules import PARTS_A_ROW, Rules
from sgc_kernels.gpu.attention.side_stream import SideStream
from sgc_kernels.gpu.attention.tuning import DEFAULT, Tuning
from sgc_kernels.gpu.attention.wide import attend_wide
from sgc_kernels.gpu.launcher import Arguments, Form, Launcher

_FEW_ROWS = 16
_FEW_WIDE = 64  # programs
_COPIES = 4  # host buffers, so that the next step's may be written while the last one's travels

_launch_wide = Launcher(attend_wide)
_launch_narrow = Launcher(attend_narrow)
_launch_merge = Launcher(merge_partials)


@dataclass(frozen=True, slots=True)
class Forms:
    """How a model's kernels are compiled: constants of a launch."""

    wide: dict[int, dict[str, Any]]  # by tile
    wide_many: dict[int, dict[str, Any]]  # where there are more programs than half the SMs
    few: dict[str, Any]
    own: dict[int, dict[str, Any]]  # by tokens
    merge: dict[str, Any]
    merge_long: dict[str, Any]  # for few rows, which may have many partial results each


@dataclass(slots=True)
class Buffers:
    """Tables of the loaded plan on the device, which stay where they are."""

    device: torch.device
    max_rows: int
    max_items: int
    table: torch.Tensor = field(init=False)  # int32: wide, few, own items, places
    views: tuple[torch.Tensor, ...] = field(init=False)  # of the table's kinds
    used: list[list[int]] = field(init=False)  # numbers of each kind in a host buffer
    hosts: list[torch.Tensor] = field(init=False)
    arrived: list[torch.cuda.Event | None] = field(init=False)
    turn: int = 0

    def __post_init__(self) -> None:
        size = 3 * self.max_items * ITEM + self.max_rows * PLACE
        self.table = torch.zeros(size, dtype=torch.int32, device=self.device)
        self.views = tuple(self.table[kind * self.max_items * ITEM :] for kind in range(4))
        pinned = self.device.type == "cuda"
        self.hosts = [
            torch.zeros(size, dtype=torch.int32, pin_memory=pinned) for _ in range(_COPIES)
        ]
        self.arrived = [None] * _COPIES
        self.used = [[0, 0, 0, self.max_rows * PLACE] for _ in range(_COPIES)]

    def items(self, kind: int) -> torch.Tensor:
        return self.views[kind]

    @property
    def places(self) -> torch.Tensor:
        return self.views[3]

    def hold(self, launch: Launch) -> bool:
        items = max(launch.wide, launch.few, launch.own)
        return launch.rows <= self.max_rows and items <= self.max_items

    def load(self, plan: Plan) -> None:
        self.turn = (self.turn + 1) % _COPIES
        event, host = self.arrived[self.turn], self.hosts[self.turn]
        if event is not None:
            event.synchronize()
        numbers, used = host.numpy(), self.used[self.turn]
        for kind, part in enumerate((plan.wide, plan.few, plan.own, plan.places)):
            begin = kind * self.max_items * ITEM
            end = begin + part.size
            numbers[begin:end] = part.reshape(-1)
            numbers[end : begin + used[kind]] = -1 if kind == 3 else 0  # what was there before
            used[kind] = part.size
        self.table.copy_(host, non_blocking=True)
        if self.device.type == "cuda":
            self.arrived[self.turn] = torch.cuda.current_stream().record_event()


class DecodeAttention:
    """Buffers and kernels of decode attention for one model (and one window).

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
        tuning: Tuning = DEFAULT,
    ) -> None:
        self.shape = shape
        self._window = window
        device = torch.device(device)
        max_items = round_up(4 * max_rows + 256)  # rounded launches fit, too
        max_partials = PARTS_A_ROW * max_rows + 2048
        self._buffers = Buffers(device, max_rows, max_items)
        size = (max_partials, shape.num_heads)
        self._partial = torch.empty((*size, shape.head_dim), dtype=torch.float32, device=device)
        self._sums = torch.empty(size, dtype=torch.float32, device=device)
        self._rules = _rules(shape, max_partials, max_items, window, tuning)
        self.planner = Planner(self._rules)
        self.forms = _forms(shape)
        self._kept: dict[tuple[int, ...], Form] = {}
        self._sides = SideStream(), SideStream()
        self.launch: Launch | None = None

    def plan(
        self,
        lcp: Sequence[int] | Ints,
        lens: Sequence[int] | Ints,
        room: int = 16,
        order: Ints | None = None,
    ) -> Plan:
        """See `Planner.plan`."""
        assert len(lens) <= self._buffers.max_rows, "more rows than the buffers hold"
        return self.planner.plan(lcp, lens, room, order)

    def grids(self, launch: Launch) -> Grids:
        """See `RowAttention.grids`."""
        return self._rules.grids(launch)

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
        """Attention of one layer by the loaded plan.

        Args:
            q: `[rows, num_heads, head_dim]`; rows may lie apart (a part of a wider product).
            k_cache, v_cache: `[num_slots, num_kv_heads, head_dim]`; only slots named are read.
            slots: int32 on the device; row b's lie from `starts[b]` on.
            lens: `[rows]` int32 on the device, the new token included.
            out: `[rows, num_heads, head_dim]`, written for the rows of the plan.
            launch: grids to capture in a graph; it must cover every plan the graph runs with.
                None: those of the loaded plan.
        """
        launch = launch or self.launch
        assert launch is not None, "no plan is loaded"
        assert self._buffers.hold(launch), "the launch is larger than the buffers"
        _check(self.shape, q, k_cache, v_cache, slots, out)
        arrays = (q, k_cache, v_cache, slots, starts, lens)
        wide, few = self._sides
        with wide.beside(q.device, launch.wide > 0 and launch.own > 0):
            self._wide(arrays, launch)
        # Launched one by one, another stream costs more than it saves.
        with few.beside(q.device, launch.few > 0 and launch.own > 0 and _is_recorded(q.device)):
            self._attend(_launch_narrow, 1, launch.few, arrays, self.forms.few)
        self._attend(_launch_narrow, 2, launch.own, arrays, self.forms.own[launch.tokens])
        wide.join(q.device)
        few.join(q.device)
        self._merge(out, launch)
        return out

    def prepared(
        self, arrays: tuple[torch.Tensor, ...], out: torch.Tensor
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        """`run` by the loaded plan, one launch after the other, to be called with caches like the
        second and third of `arrays`, which are the first six of `run`."""
        launch, device = self.launch, out.device
        assert launch is not None, "no plan is loaded"
        assert self._buffers.hold(launch), "the launch is larger than the buffers"
        q, k_cache, v_cache, slots, *_ = arrays
        _check(self.shape, q, k_cache, v_cache, slots, out)
        own = self.forms.own[launch.tokens]
        kinds = (
            (_launch_wide, 0, launch.wide, self._wide_form(launch)),
            (_launch_narrow, 1, launch.few, self.forms.few),
            (_launch_narrow, 2, launch.own, own),
        )
        wide, *narrow = (
            kernel.prepared(self._attend_arguments(kind, count, arrays, form), (1, 2))
            if count
            else None
            for kernel, kind, count, form in kinds
        )
        merge, side = _launch_merge.prepared(self._merge_arguments(out, launch), ()), self._sides[0]

        def attend(k_cache: torch.Tensor, v_cache: torch.Tensor) -> None:
            if wide is not None:
                with side.beside(device, launch.own > 0):
                    wide(k_cache, v_cache)
            for some in narrow:
                if some is not None:
                    some(k_cache, v_cache)
            side.join(device)
            merge()

        return attend

    def _wide(self, arrays: tuple[torch.Tensor, ...], launch: Launch) -> None:
        self._attend(_launch_wide, 0, launch.wide, arrays, self._wide_form(launch))

    def _wide_form(self, launch: Launch) -> dict[str, Any]:
        many = launch.wide * self.shape.num_kv_heads > _FEW_WIDE
        return (self.forms.wide_many if many else self.forms.wide)[launch.tile]

    def _attend(
        self,
        kernel: Launcher,
        kind: int,
        count: int,
        arrays: tuple[torch.Tensor, ...],
        form: dict[str, Any],
    ) -> None:
        if count > 0:
            kernel(*self._attend_arguments(kind, count, arrays, form))

    def _attend_arguments(
        self, kind: int, count: int, arrays: tuple[torch.Tensor, ...], form: dict[str, Any]
    ) -> Arguments:
        buffers = self._buffers
        return (
            (self.shape.num_kv_heads, count),
            (*arrays, buffers.items(kind), buffers.places, self._partial, self._sums),
            (self.shape.scale * LOG2_E,),
            (),
            self._attend_form(form, *arrays[:3]),
        )

    def _attend_form(
        self, form: dict[str, Any], q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor
    ) -> Form:
        """One of `self.forms` for tensors that lie so."""
        strides = q.stride(0), k_cache.stride(0), v_cache.stride(0)
        key = (id(form), *strides)
        if key not in self._kept:
            names = dict(zip(("Q_STRIDE", "K_STRIDE", "V_STRIDE"), strides, strict=True))
            self._kept[key] = Form(**names, WINDOW=self._window or 0, **form)
        return self._kept[key]

    def _merge(self, out: torch.Tensor, launch: Launch) -> None:
        _launch_merge(*self._merge_arguments(out, launch))

    def _merge_arguments(self, out: torch.Tensor, launch: Launch) -> Arguments:
        form = self.forms.merge if launch.rows > _FEW_ROWS else self.forms.merge_long
        key = (id(form), out.stride(0))
        if key not in self._kept:
            self._kept[key] = Form(OUT_STRIDE=out.stride(0), **form)
        grid = (-(-self.shape.num_heads // form["SOME_HEADS"]), launch.rows)
        tensors = (self._partial, self._sums, self._buffers.places, out)
        return grid, tensors, (), (), self._kept[key]


def _is_recorded(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _check(
    shape: AttentionShape,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    out: torch.Tensor,
) -> None:
    for tensor, heads, dtype in (
        (q, shape.num_heads, shape.dtype),
        (out, shape.num_heads, shape.dtype),
        (k_cache, shape.num_kv_heads, shape.kept),
        (v_cache, shape.num_kv_heads, shape.kept),
    ):
        assert tensor.shape[1:] == (heads, shape.head_dim), "heads and head size of the shape"
        assert tensor.stride()[1:] == (shape.head_dim, 1), "heads must lie side by side"
        assert tensor.dtype == dtype, "the number format of the shape"
    assert slots.dtype == torch.int32, "slots are int32"


def _pad(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _rules(
    shape: AttentionShape,
    max_partials: int,
    max_items: int,
    window: int | None,
    tuning: Tuning,
) -> Rules:
    group = _pad(shape.num_heads // shape.num_kv_heads)
    own_rows = max(1, 8 // group)
    return Rules(
        kv_heads=shape.num_kv_heads,
        group=shape.num_heads // shape.num_kv_heads,
        token_bytes=2 * shape.num_kv_heads * shape.head_dim * shape.kept.itemsize,
        own_rows=own_rows,
        few_rows=max(own_rows, 16 // group),
        wide_rows=min(64, 128 // group),
        max_partials=max_partials,
        max_items=max_items,
        window=window,
        tuning=tuning,
    )


def _forms(shape: AttentionShape) -> Forms:
    exact = shape.dtype == torch.float32
    group = shape.num_heads // shape.num_kv_heads
    dim_pad = max(16, _pad(shape.head_dim))
    model = {"HEADS": shape.num_heads, "DIM": shape.head_dim, "DIM_PAD": dim_pad}
    attend = {
        **model,
        "GROUP": group,
        "GROUP_PAD": _pad(group),
        "PRECISION": "ieee" if exact else "tf32",
    }
    big, few, own = dim_pad > 128, max(16, _pad(group)), max(8, _pad(group))
    wide_tokens = 16 if exact else (32 if big else 64)
    narrow = 16 if exact else 64
    wide = {
        64: {**attend, **_sizes(64, wide_tokens, 3, 4)},
        128: {**attend, **_sizes(128, wide_tokens, 3, 8)},
    }
    if exact or big or own > 8:
        warps = 4 if big else 2
        few_form = _sizes(few, narrow, 2, warps)
        own_forms = {16: _sizes(own, 16, 2, 1), 64: _sizes(own, narrow, 2, warps)}
        wide_many = wide
    else:  # what was fastest (see `Tuning`); bounds on registers let more programs live on an SM
        few_form = _sizes(few, 32, 2, 1)
        short, long = _sizes(own, 16, 2, 1), _sizes(own, 64, 2, 4)
        if shape.kept.itemsize == 1:  # widening takes registers
            long["maxnreg"] = 128
        else:
            short["maxnreg"] = 128
        own_forms = {16: short, 64: long}
        wide_many = {tile: {**form, "maxnreg": 168} for tile, form in wide.items()}
    return Forms(
        wide=wide,
        wide_many=wide_many,
        few={**attend, **few_form},
        own={tokens: {**attend, **form} for tokens, form in own_forms.items()},
        merge={**model, "SOME_HEADS": 4, "AT_ONCE": 4, "num_warps": 1},
        merge_long={**model, "SOME_HEADS": 1, "AT_ONCE": 8, "num_warps": 1},
    )


def _sizes(tile: int, tokens: int, stages: int, warps: int) -> dict[str, Any]:
    return {"TILE": tile, "TOKENS": tokens, "STAGES": stages, "num_warps": warps}
