"""Weights as integers of 4 or 8 bits with a scale, and perhaps a minimum, per 32 columns."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sgc_kernels.weights.grouped_ir import GROUP, TILE, Layout
from sgc_kernels.weights.native import can_compile, product_of

_LINE = 64  # bytes; a load that crosses a cache line costs two
_CHUNK = 1 << 17  # numbers that are converted at once: they stay in the second cache
_TICKETS = 8  # per thread and product: few enough to be cheap, enough to even out


@dataclass(frozen=True, slots=True)
class GroupedWeight:
    """`weight[o, c] = scales[o, c // 32] * ints[o, c] + mins[o, c // 32]`.

    Attributes:
        bits: 4 (integers 0 to 15) or 8 (-128 to 127).
        ints: `[out, in]`, uint8 for 4 bits, int8 for 8.
        scales: `[out, in / 32]`, float16 or float32.
        mins: the same, of the same type; None: 0.
    """

    bits: int
    ints: torch.Tensor
    scales: torch.Tensor
    mins: torch.Tensor | None

    @property
    def shape(self) -> tuple[int, int]:
        return self.ints.shape[0], self.ints.shape[1]

    @property
    def layout(self) -> Layout:
        return Layout(self.bits, self.mins is not None, self.scales.element_size())

    def dequantized(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """`[out, in]`, computed in float32 with one rounding where a minimum is added, and
        rounded to `dtype`."""
        rows, columns = self.shape
        out = torch.empty(rows, columns, dtype=dtype)
        step = max(1, _CHUNK // columns)
        for first in range(0, rows, step):
            chunk = slice(first, first + step)
            parts = self.ints[chunk].to(torch.float32).view(-1, columns // GROUP, GROUP)
            parts.mul_(self.scales[chunk].to(torch.float32).unsqueeze(-1))
            if self.mins is not None:
                parts.add_(self.mins[chunk].to(torch.float32).unsqueeze(-1))
            out[chunk] = parts.view(-1, columns)
        return out

    def rows(self, order: torch.Tensor) -> GroupedWeight:
        """The same weight with its rows in another order."""
        mins = None if self.mins is None else self.mins[order]
        return GroupedWeight(self.bits, self.ints[order], self.scales[order], mins)


def stack(weights: Sequence[GroupedWeight]) -> GroupedWeight:
    """Weights of one input above each other. They keep their numbers: what has fewer bits, no
    minimum or shorter scales than another is widened."""
    bits = max(weight.bits for weight in weights)
    has_min = any(weight.mins is not None for weight in weights)
    kind = max((w.scales.dtype for w in weights), key=lambda dtype: dtype.itemsize)
    parts = [_widened(weight, bits, has_min, kind) for weight in weights]
    mins = [part.mins for part in parts if part.mins is not None]
    return GroupedWeight(
        bits,
        torch.cat([part.ints for part in parts]),
        torch.cat([part.scales for part in parts]),
        torch.cat(mins) if has_min else None,
    )


def _widened(weight: GroupedWeight, bits: int, has_min: bool, kind: torch.dtype) -> GroupedWeight:
    ints = weight.ints.view(torch.int8) if bits == 8 else weight.ints
    scales, mins = weight.scales.to(kind), weight.mins
    if has_min:
        mins = torch.zeros_like(scales) if mins is None else mins.to(kind)
    return GroupedWeight(bits, ints, scales, mins)


def quantize(weight: torch.Tensor, bits: int) -> GroupedWeight:
    """Round `[out, in]` to the nearest of the values that a group can hold.

    8 bits: -127 to 127 times a scale, errors below 1/254 of the group's largest magnitude. 4 bits:
    16 values from the group's minimum to its maximum, errors below 1/30 of their distance. Scales
    are float16 (what `Q8_0` and `Q4_1` of llama.cpp do), or float32 where float16 overflows or
    loses bits to its smallest numbers.
    """
    groups = weight.to(torch.float32).view(weight.shape[0], -1, GROUP)
    low = groups.amin(-1) if bits == 4 else torch.zeros_like(groups[..., 0])
    top = groups.amax(-1) if bits == 4 else groups.abs().amax(-1)
    steps, kind = (15 if bits == 4 else 127), torch.float16
    scales = (top - low) / steps
    limits = torch.finfo(kind)
    if not bool(((scales == 0) | (scales >= limits.tiny)).all()) or bool(
        (low.abs() > limits.max).any()
    ):
        kind = torch.float32
    scales, low = scales.to(kind), low.to(kind)
    divisor = scales.to(torch.float32).unsqueeze(-1)
    ints = (groups - low.to(torch.float32).unsqueeze(-1)) / torch.where(divisor > 0, divisor, 1)
    ints = ints.round_().clamp_(0 if bits == 4 else -127, steps).view(weight.shape)
    if bits == 4:
        return GroupedWeight(4, ints.to(torch.uint8), scales, low)
    return GroupedWeight(8, ints.to(torch.int8), scales, None)


def can_group(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether products with grouped weights exist for `dtype` on `device`."""
    return device.type == "cpu" and dtype == torch.bfloat16 and can_compile()


def fits(rows: int, columns: int) -> bool:
    """Whether a weight `[rows, columns]` can be cut into tiles and groups."""
    return rows % TILE == 0 and columns % GROUP == 0


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A grouped weight as its product reads it; `data` is uint8 `[tiles, groups, block_bytes]`."""

    layout: Layout
    data: torch.Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.data.shape[0] * TILE, self.data.shape[1] * GROUP


def pack(weight: GroupedWeight) -> PackedWeight:
    """Lay a weight out for its product; see `Layout`. Its shape must `fits`."""
    rows, columns = weight.shape
    tiles, groups = rows // TILE, columns // GROUP
    per_column = [weight.scales] if weight.mins is None else [weight.scales, weight.mins]
    parts = [_nibbles(weight.ints) if weight.bits == 4 else _bytes(weight.ints)]
    parts += [part.view(tiles, TILE, groups).transpose(1, 2) for part in per_column]
    flat = [part.contiguous().view(torch.uint8).view(tiles, groups, -1) for part in parts]
    return PackedWeight(weight.layout, torch.cat(flat, dim=-1))


def _nibbles(ints: torch.Tensor) -> torch.Tensor:
    tiles, groups = ints.shape[0] // TILE, ints.shape[1] // GROUP
    pairs = ints.view(torch.int16).view(tiles, TILE, groups, 4, 4)  # two columns in a number
    # (place of the nibble: last) to one word for each half of the pair
    low, high = pairs & 0xFF, pairs >> 8
    words = torch.stack([low, high], dim=-1)  # [tiles, lanes, groups, vectors, places, halves]
    packed = words[..., 0, :] | words[..., 1, :] << 4
    packed = packed | words[..., 2, :] << 8 | words[..., 3, :] << 12
    return packed.permute(0, 2, 3, 1, 4)


def _bytes(ints: torch.Tensor) -> torch.Tensor:
    tiles, groups = ints.shape[0] // TILE, ints.shape[1] // GROUP
    pairs = ints.view(torch.int16).view(tiles, TILE, groups, GROUP // 2)
    return pairs.permute(0, 2, 3, 1)


class GroupedLinear:
    """Products of bfloat16 with a grouped weight, exact but for the rounding of float32 sums.

    A row's result does not depend on the other rows or on the number of threads. It is rounded to
    bfloat16, or float32 as it is when it is `wide`.
    """

    def __init__(
        self, weight: PackedWeight, bias: torch.Tensor | None = None, wide: bool = False
    ) -> None:
        self._dtype = torch.float32 if wide else torch.bfloat16
        self._out, self._in = weight.shape
        self._data = _aligned(weight.data)
        self._bias = torch.zeros(self._out) if bias is None else bias.to(torch.float32).contiguous()
        self._has_sums = weight.layout.has_min
        self._product = product_of(weight.layout, wide)
        tiles, groups = weight.data.shape[:2]
        ticket = max(1, tiles // (_TICKETS * torch.get_num_threads()))
        addresses = (self._data.data_ptr(), tiles, groups, self._bias.data_ptr(), ticket)
        self._shape = (ctypes.c_int64 * len(addresses))(*addresses)
        self._shape_address = ctypes.addressof(self._shape)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == torch.bfloat16
        assert x.shape[1] == self._in
        x, rows = x.contiguous(), x.shape[0]
        out = x.new_empty(rows, self._out, dtype=self._dtype)
        sums = rows * self._in // GROUP if self._has_sums else 1  # of each row's groups
        room = x.new_empty(sums, dtype=torch.float32)
        self._product(
            self._shape_address,
            x.data_ptr(),
            out.data_ptr(),
            room.data_ptr(),
            rows,
            torch.get_num_threads(),
        )
        return out


def _aligned(data: torch.Tensor) -> torch.Tensor:
    """The bytes at an address that is a multiple of a cache line; copied if they are not."""
    if data.is_contiguous() and data.data_ptr() % _LINE == 0:
        return data
    room = torch.empty(data.numel() + _LINE, dtype=torch.uint8)
    start = -room.data_ptr() % _LINE
    return room[start : start + data.numel()].view(data.shape).copy_(data)
